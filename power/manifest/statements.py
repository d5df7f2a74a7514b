"""TOML text as its statements with the comments around them; nothing of it is lost.

For text that tomllib has read: a scan that only has to find where a statement ends.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # a basic string of many lines
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|(?P<comment>#[^\n]*)"
    r"|(?P<open>[\[{])|(?P<close>[\]}])"
    r"|(?P<end>\n)"
    r"|[^\"'#\[\]{}\n]+",
    re.DOTALL,
)
_KEY = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|[^"'=])*=""")


@dataclass(slots=True)
class Statement:
    """A table header or a `key = value`, and the comments that belong to it.

    keys: its dotted parts. value: as it is spelled, None for a header; plain: what
    it means. array: a header in double brackets. lead: comment lines above it, an
    empty line between blocks. tail: comment lines below it. gap: a blank line stood
    above all of it, and a pair above that.
    """

    keys: tuple[str, ...]
    value: str | None = None
    plain: Any = None
    array: bool = False
    comment: str | None = None
    lead: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    gap: bool = False

    @property
    def is_header(self) -> bool:
        """Whether it opens a table."""
        return self.value is None


@dataclass(slots=True)
class Statements:
    """A whole file: the comment block at its top, its statements, the comments at its end."""

    head: list[str]
    body: list[Statement]
    foot: list[str]


def statements(text: str) -> Statements:
    """The statements of `text`, TOML that tomllib reads, its line ends single line feeds."""
    lines = list(_lines(text))
    head: list[str] = []
    while lines and lines[0] == "":
        lines.pop(0)
    while lines and isinstance(lines[0], str) and lines[0]:
        head.append(lines.pop(0))  # type: ignore[arg-type]  # a str, as just seen
    found = Statements(head, [], [])
    waiting: list[str] = []  # comment lines and blanks since the last statement
    for line in lines:
        if isinstance(line, str):
            waiting.append(line)
            continue
        _place(found, waiting, line)
        waiting = []
        found.body.append(line)
    _place(found, waiting, None)
    return found


def _place(found: Statements, waiting: list[str], after: Statement | None) -> None:
    """Give comment lines to the statement that they stand at: below one, or above one."""
    blocks = _blocks(waiting)
    first_touches = bool(waiting) and waiting[0] != ""
    last_touches = bool(waiting) and waiting[-1] != "" and after is not None
    if found.body and blocks and first_touches and not (last_touches and len(blocks) == 1):
        found.body[-1].tail = blocks.pop(0)
    lead: list[str] = []
    for block in blocks:
        lead += [*([""] if lead else []), *block]
    if after is None:
        found.foot = lead
        return
    if lead and not last_touches:
        lead.append("")
    after.lead = lead
    after.gap = "" in waiting and bool(found.body) and not found.body[-1].is_header


def _blocks(lines: list[str]) -> list[list[str]]:
    """Runs of comment lines."""
    blocks: list[list[str]] = []
    fresh = True
    for line in lines:
        if line == "":
            fresh = True
        elif fresh:
            blocks.append([line])
            fresh = False
        else:
            blocks[-1].append(line)
    return blocks


def _lines(text: str) -> Iterator[str | Statement]:
    """Each logical line: "" for a blank one, a comment as text, else its statement."""
    start, depth, comment = 0, 0, None
    for token in _TOKEN.finditer(text if text.endswith("\n") else text + "\n"):
        if token["open"]:
            depth += 1
        elif token["close"]:
            depth -= 1
        elif token["comment"] and depth == 0:
            comment = token
        elif token["end"] and depth == 0:
            end = token.start() if comment is None else comment.start()
            words = None if comment is None else comment[0].rstrip()
            yield _line(text[start:end].strip(), words)
            start, comment = token.end(), None


def _line(source: str, comment: str | None) -> str | Statement:
    if not source:
        return comment or ""
    if source.startswith("["):
        keys, plain = _path(tomllib.loads(source))
        return Statement(keys, array=isinstance(plain, list), comment=comment)
    key = _KEY.match(source)
    end = 0 if key is None else key.end()
    keys, plain = _path(tomllib.loads(source[:end] + "0"))
    plain = tomllib.loads("v = " + source[end:].strip())["v"]
    return Statement(keys, value=source[end:].strip(), plain=plain, comment=comment)


def _path(values: dict[str, Any]) -> tuple[tuple[str, ...], Any]:
    """The keys down to the one value of a document of one statement, and that value."""
    keys: list[str] = []
    inner: Any = values
    while isinstance(inner, dict) and inner:
        ((key, inner),) = inner.items()
        keys.append(key)
    return tuple(keys), inner
