"""TOML text to plain values, with one diagnostic for what no parser can forgive."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Literal, NoReturn

from power.diagnostics import Span, fail
from power.manifest.read import conflict_spans, span_at

NESTING_LIMIT = 16
VALUE_LIMIT = 20_000  # keys and items of one file; the longest list of a manifest has 4,096

# Strings and comments, each to its end or as far as it goes, so that a scan is linear.
_QUIET = re.compile(
    r'"""(?:\\.|(?!""").)*+(?:"""|\Z)|"(?:\\.|[^"\\\n])*+"?'
    r"|'''(?:(?!''').)*+(?:'''|\Z)|'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)
_DEEP_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{NESTING_LIMIT + 1}}}")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_INLINE = re.compile(r"Duplicate inline table key '(.*)'")
_HEADER = re.compile(r"^[ \t]*\[.*")
_CUT_OFF = "the file ends in the middle of this: finish it, or fetch the file again"
_HINTS = (
    # what tomllib says (stable since 3.11) -> what helps
    ("Invalid value", "strings need quotes; true and false are written in lower case"),
    ("Expected '=' after a key", "write `key = value`, one on each line"),
    ("Illegal character '\\n'", "close the string on the line where it starts, or use `'''`"),
    ("Illegal character", "remove the character, or write it as an escape in a quoted string"),
    ("Found invalid character", "remove the character"),
    ("Unterminated string", "close the string with the quotes that opened it"),
    (
        "Unescaped '\\' in a string",
        "use a literal string in single quotes, or double the backslash",
    ),
    ("Escaped character", "write the character itself: half of a surrogate pair is none"),
    ("Invalid hex value", "write four hexadecimal digits behind `\\u`, eight behind `\\U`"),
    ("Expected newline or end of document", "one `key = value` on each line"),
    ("Expected ']", "close the table's name with the brackets that opened it"),
    ("Unclosed array", "close the array with `]`"),
    ("Unclosed inline table", "close the table with `}`"),
    ("Invalid initial character", "a key is letters, digits, `_` and `-`, or stands in quotes"),
    ("Invalid statement", "a line is `key = value`, `[table]` or a comment"),
    ("Invalid date or datetime", "write a day that exists, or put text into quotes"),
    ("", "write `key = value` or `[table]`, as in a file of `power init`"),
)


def parse(text: str, name: str, what: str) -> dict[str, Any]:
    """The values in `text`.

    Raises P107 (conflict markers), P109 (not TOML), P110 (a key or table twice),
    P111 (nested deeper than `NESTING_LIMIT`), P103 (more than `VALUE_LIMIT` values).
    """
    deep = deep_key(text)
    if deep is not None:
        _refuse_nesting(name, what, (span_at(text, deep, name),))
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        _refuse_syntax(text, name, what, str(error))
    except RecursionError:
        _refuse_nesting(name, what)
    except ValueError:  # an integer of more digits than Python converts
        _refuse_number(text, name)
    excess = find_excess(values)
    if excess == "depth":
        _refuse_nesting(name, what)
    if excess == "number":
        fail(
            "P103",
            f"the {what} holds too many values",
            place=name,
            expected=f"at most {VALUE_LIMIT} keys and items",
            found="more",
            hint=f"a {what} needs some dozens: check what wrote this file",
        )
    return values


def deep_key(text: str) -> int | None:
    """Where a dotted key begins that alone nests deeper than `NESTING_LIMIT`; None: nowhere.

    To be asked before parsing: tomllib takes quadratic time for such a key.
    """
    found = _DEEP_KEY.search(_QUIET.sub(lambda quiet: "_" * len(quiet.group()), text))
    return None if found is None else found.start()


def find_excess(values: dict[str, Any]) -> Literal["depth", "number"] | None:
    """What there is too much of: levels (`NESTING_LIMIT`) or values (`VALUE_LIMIT`).

    Found without recursion, and before a validator lists what is wrong with each of them.
    """
    level: list[Any] = [values]
    count = 0
    for _ in range(NESTING_LIMIT + 1):
        count += sum(map(len, level))
        if count > VALUE_LIMIT:
            return "number"
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return None
    return "depth"


def _refuse_nesting(name: str, what: str, spans: tuple[Span, ...] = ()) -> NoReturn:
    fail(
        "P111",
        f"the {what} is nested too deeply",
        spans=spans,
        place=None if spans else name,
        expected=f"at most {NESTING_LIMIT} levels",
        found="more",
        hint=f"a {what} needs three levels at most: check what wrote this file",
    )


def _refuse_number(text: str, name: str) -> NoReturn:
    match = re.search(r"[0-9_]{1000,}", text)
    spans = (span_at(text, match.start(), name, len(match.group())),) if match else ()
    fail(
        "P109",
        "a number has too many digits",
        spans=spans,
        place=None if spans else name,
        hint="write a number that fits 64 bits",
    )


def _refuse_syntax(text: str, name: str, what: str, message: str) -> NoReturn:
    markers = conflict_spans(text, name)
    if markers:
        fail(
            "P107",
            f"the {what} holds merge-conflict markers",
            spans=markers,
            hint="keep one side of each conflict and remove the markers",
        )
    reason, offset = _place(text, message)
    if reason.startswith(("Cannot", "Duplicate")):
        _refuse_duplicate(text, name, offset, reason)
    fail(
        "P109",
        f"the {what} is not TOML: {reason[:1].lower()}{reason[1:]}",
        spans=(span_at(text, offset, name),),
        hint=_CUT_OFF
        if message.endswith("(at end of document)")
        else next(hint for start, hint in _HINTS if reason.startswith(start)),
    )


def _place(text: str, message: str) -> tuple[str, int]:
    """Tomllib's message without its place, and that place as an offset into `text`."""
    match = _PLACE.search(message)
    if match is None or match.group(1) is None:
        return _PLACE.sub("", message), max(0, len(text.rstrip()) - 1)
    # tomllib counts in text whose `\r\n` are `\n`; columns are the same in ours.
    line, column = int(match.group(1)), int(match.group(2))
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return message[: match.start()], min(start + column - 1, max(0, len(text) - 1))


def _refuse_duplicate(text: str, name: str, offset: int, reason: str) -> NoReturn:
    """Point at both definitions; tomllib tells only the end of the second."""
    inline = _INLINE.match(reason)
    if inline is not None:
        fail(
            "P110",
            f"`{inline[1]}` is written twice in one inline table",
            spans=(span_at(text, offset, name),),
            hint="keep one of them",
        )
    lines = text.split("\n")
    # The parser stops behind the value: that is the next line when the value ended its own.
    index = text.count("\n", 0, offset)
    if index > 0 and not lines[index][: offset - (text.rfind("\n", 0, offset) + 1)].strip():
        index -= 1
    second = _definition(lines[index])
    spans: tuple[Span, ...] = ()
    for earlier in _earlier(lines, index):
        if second is not None and _definition(lines[earlier]) == second:
            spans = (_line_span(lines, earlier, name, "first written here"),)
            break
    fail(
        "P110",
        f"`{second}` is written twice" if second else "a key is written twice",
        spans=(_line_span(lines, index, name, "and again here" if spans else ""), *spans),
        hint="keep one of them",
    )


def _definition(line: str) -> str | None:
    """What a line defines: `[table]`, or the key before `=`."""
    stripped = line.strip()
    if stripped.startswith("["):
        return stripped.split("#")[0].strip()
    key, equals, _ = stripped.partition("=")
    return key.strip().strip("\"'") if equals and not stripped.startswith("#") else None


def _earlier(lines: list[str], index: int) -> list[int]:
    """Earlier lines that could define the same: for a key, those of its own table."""
    if _HEADER.match(lines[index]):
        return list(range(index))
    start = max((i for i in range(index) if _HEADER.match(lines[i])), default=0)
    return list(range(start, index))


def _line_span(lines: list[str], index: int, name: str, label: str) -> Span:
    source = lines[index].rstrip("\r")
    body = source.strip()
    width = len(body if body.startswith("[") else body.partition("=")[0].rstrip())
    return Span(
        name, index + 1, len(source) - len(source.lstrip()) + 1, max(1, width), source, label
    )
