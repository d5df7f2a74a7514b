"""Diagnostics as text for a terminal, as JSON, and as GitHub annotations."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from power.diagnostics.model import Diagnostic, Span

_RED, _YELLOW, _BLUE, _CYAN, _BOLD, _RESET = (
    "\x1b[31m",
    "\x1b[33m",
    "\x1b[34m",
    "\x1b[36m",
    "\x1b[1m",
    "\x1b[0m",
)
_LINE_LIMIT = 100  # characters shown of a line


def escape(text: str, limit: int | None = None) -> str:
    r"""`text` with every control, format and surrogate character shown as an escape.

    Text from files must not reach a terminal as it is: `\x1b` starts a terminal
    sequence, U+202E reverses what follows it. Cut to `limit` characters.
    """
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    number = ord(char)
    if number < 0x100:  # noqa: PLR2004 - one byte
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"  # noqa: PLR2004


def counted(number: int, word: str, many: str | None = None) -> str:
    """`1 defect`, `2 defects`, `no defects`; `many` where that is not the word with an s."""
    return f"{number or 'no'} {word if number == 1 else many or f'{word}s'}"


def first_line(error: BaseException) -> str:
    """`KeyError: 'x'`: what kind of error, and the first line of what it says."""
    told = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


def as_text(diagnostics: Iterable[Diagnostic], *, color: bool = False) -> str:
    """One block a diagnostic, in the layout of docs/reference/cli.md."""
    return "\n".join(_block(d, color=color) for d in diagnostics)


def _block(d: Diagnostic, *, color: bool) -> str:
    def paint(text: str, *styles: str) -> str:
        return f"{''.join(styles)}{text}{_RESET}" if color else text

    tone = _RED if d.severity == "error" else _YELLOW
    lines = [paint(f"{d.severity}[{d.code}]", _BOLD, tone) + ": " + paint(escape(d.message), _BOLD)]
    if d.place is not None:
        lines.append(paint("  --> ", _BLUE) + escape(d.place))
    margin = max((len(str(s.line)) for s in d.spans), default=0)
    for span in d.spans:
        lines += _excerpt(span, margin, lambda t: paint(t, _BLUE), lambda t: paint(t, tone))
    if d.expected is not None:
        lines.append("  expected: " + escape(d.expected, 1000))
    if d.found is not None:
        lines.append("     found: " + escape(d.found, 1000))
    if d.hint is not None:
        lines.append(paint("hint:", _BOLD, _CYAN) + " " + escape(d.hint))
    return "\n".join(lines)


def _excerpt(span: Span, margin: int, rule: Any, mark: Any) -> list[str]:
    place = f"{escape(span.file)}:{span.line}:{span.column}"
    out = [rule("  --> ") + place]
    if not span.source:
        return out
    before, here, after = _window(span)
    label = f" {span.label}" if span.label else ""
    carets = "^" * max(1, _cells(here))
    out.append(rule(f"{span.line:>{margin}} | ") + before + here + after)
    out.append(rule(" " * margin + " | ") + " " * _cells(before) + mark(carets + label))
    return out


def _window(span: Span) -> tuple[str, str, str]:
    """The marked part of a line, with what stands around it: escaped, `…` for what is cut."""
    start, end = span.column - 1, span.column - 1 + span.width
    before = _end(span.source[:start], _LINE_LIMIT // 2)
    here = _start(span.source[start:end], _LINE_LIMIT - len(before))
    after = _start(span.source[end:], _LINE_LIMIT - len(before) - len(here))
    return before, here, after


def _start(text: str, room: int) -> str:
    shown = escape(text[: room + 1])
    return shown if len(shown) <= room else (shown[: room - 1] + "…")[:room]


def _end(text: str, room: int) -> str:
    shown = escape(text[-room - 1 :])
    return shown if len(shown) <= room else "…" + shown[1 - room :]


def _cells(text: str) -> int:
    """Columns of a terminal that printable `text` takes: letters of the East take two."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def as_json(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """A JSON-ready list; absent fields are left out."""
    return [_object(d) for d in diagnostics]


def _object(d: Diagnostic) -> dict[str, Any]:
    out: dict[str, Any] = {"code": d.code, "severity": d.severity, "message": d.message}
    if d.place is not None:
        out["place"] = d.place
    if d.spans:
        out["spans"] = [
            {"file": s.file, "line": s.line, "column": s.column, "width": s.width}
            | ({"label": s.label} if s.label else {})
            for s in d.spans
        ]
    for key in ("expected", "found", "hint"):
        value = getattr(d, key)
        if value is not None:
            out[key] = value
    return out


def as_github(diagnostics: Iterable[Diagnostic]) -> str:
    """Workflow commands that GitHub shows as annotations on the changed lines."""
    return "\n".join(_annotation(d) for d in diagnostics)


def _annotation(d: Diagnostic) -> str:
    fields = [f"title={_property(f'{d.code}')}"]
    if d.spans:
        span = d.spans[0]
        fields = [
            f"file={_property(span.file)}",
            f"line={span.line}",
            f"col={span.column}",
            f"endColumn={span.column + span.width}",
            *fields,
        ]
    parts = [d.message]
    if d.place is not None:
        parts.append(f"at {d.place}")
    if d.expected is not None:
        parts.append(f"expected: {d.expected}")
    if d.found is not None:
        parts.append(f"found: {d.found}")
    if d.hint is not None:
        parts.append(f"hint: {d.hint}")
    return f"::{d.severity} {','.join(fields)}::" + _data("\n".join(escape(p) for p in parts))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(escape(text)).replace(":", "%3A").replace(",", "%2C")
