"""From a file to text that may be parsed: size, kind, encoding, stray bytes.

Every refusal names what is wrong with the file itself, because a parser would
report it as something else (a conflict marker as "expected `=`", a byte-order
mark as an invalid first key).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from power.diagnostics import Span, fail
from power.manifest.files import UnreadableError, nearby, read_regular

SIZE_LIMIT = 1024 * 1024
_EMPTY = {
    "manifest": "`power init` writes a manifest from an artifact at hand",
    "profile": "write the settings into it, or name another profile",
    "trust file": "write `schema = 1` and a table `[key.NAME]` for each key",
}
_WIDEST = 120  # characters that carets stand under

_CONFLICT = re.compile(r"^(<{7}|={7}|>{7}|\|{7})(?: .*)?$", re.MULTILINE)


def read_bytes(path: Path, what: str) -> bytes:
    """The content of a regular file of at most `SIZE_LIMIT` bytes.

    `what` names the kind of file in messages. Raises P101 (missing or
    unreadable), P102 (not a regular file), P103 (too large).
    """
    try:
        return read_regular(path, SIZE_LIMIT)
    except UnreadableError as error:
        _refuse_file(path, what, error)


def _refuse_file(path: Path, what: str, error: UnreadableError) -> NoReturn:
    match error.why:
        case "absent":
            fail(
                "P101",
                f"there is no {what} here",
                place=str(path),
                hint=nearby(path) or "check the path",
            )
        case "refused":
            fail(
                "P101",
                f"the {what} cannot be read: {error}",
                place=str(path),
                hint="check the path and its permissions",
            )
        case "irregular":
            fail(
                "P102",
                f"the {what} is not a regular file: {error}",
                place=str(path),
                hint=f"name the {what} itself",
            )
        case "large":
            _refuse_size(str(path), what)


def _refuse_size(name: str, what: str) -> NoReturn:
    fail(
        "P103",
        f"the {what} is too large",
        place=name,
        expected="at most 1 MiB",
        found="more",
        hint=f"check that this is the {what} and not an artifact",
    )


def decode(data: bytes, name: str, what: str) -> str:
    """`data` as text, ready for a TOML parser.

    Raises P104 (not UTF-8), P105 (byte-order mark), P106 (NUL or bare carriage
    return), P108 (nothing in it). CRLF is legal TOML and stays.
    """
    if len(data) > SIZE_LIMIT:
        _refuse_size(name, what)
    if data.startswith(b"GGUF"):
        fail(
            "P104",
            f"the {what} is not text",
            place=name,
            expected="UTF-8 text",
            found="a GGUF",
            hint=f"name the {what}, not the artifact",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse_encoding(data, error, name, what)
    if text.startswith("\ufeff"):
        fail(
            "P105",
            f"the {what} starts with a byte-order mark",
            spans=(span_at(text, 0, name),),
            hint="save the file as UTF-8 without BOM",
        )
    for match in re.finditer(r"\0|\r(?!\n)", text):
        nul = match.group() == "\0"
        fail(
            "P106",
            f"the {what} holds a {'NUL character' if nul else 'carriage return inside a line'}",
            spans=(span_at(text, match.start(), name),),
            hint="remove the character" if nul else "save it with Unix or Windows line ends",
        )
    if not text.strip():
        fail(
            "P108",
            f"the {what} is empty",
            place=name,
            hint=_EMPTY.get(what, "check the path, or fetch the file again"),
        )
    return text


def conflict_spans(text: str, name: str) -> tuple[Span, ...]:
    """Where merge-conflict markers stand, the first three; empty when there are none."""
    found = [match for match in _CONFLICT.finditer(text) if match.group(1) != "=" * 7]
    return tuple(span_at(text, m.start(), name, len(m.group().rstrip("\r"))) for m in found[:3])


def span_at(text: str, offset: int, name: str, width: int = 1, label: str = "") -> Span:
    """The place of `text[offset:offset + width]`, cut at the end of its line."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", start)
    source = text[start : len(text) if end < 0 else end].rstrip("\r")
    column = offset - start
    return Span(
        file=name,
        line=text.count("\n", 0, start) + 1,
        column=column + 1,
        width=max(1, min(width, len(source) - column, _WIDEST)),
        source=source,
        label=label,
    )


def _refuse_encoding(data: bytes, error: UnicodeDecodeError, name: str, what: str) -> NoReturn:
    utf16 = data[:2] in {b"\xff\xfe", b"\xfe\xff"}
    before = data[: error.start].decode("utf-8")
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    fail(
        "P104",
        f"the {what} is not UTF-8",
        place=f"{name}:{line}:{column} (byte {error.start})",
        expected="UTF-8 text",
        found="UTF-16" if utf16 else f"byte 0x{data[error.start]:02x}",
        hint="save the file as UTF-8",
    )
