"""Charts as inline SVG, drawn in the colour of the text around them.

Arms are told apart by pattern and by words, never by colour alone, so a chart
reads in light and dark, in print, and with its description read aloud.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH = 720
_LABEL = 150  # left of a chart, for names
_ROW = 18
_VALUE = 110  # right of a chart, for numbers
_ROOM = 14  # that a number over a line needs
_CHARS = 22  # that fit into _LABEL

PATTERNS = ("solid", "hatch", "dots", "cross", "lines", "outline")


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: `share` of the widest, 0 to 1; `text` is its number; `series` picks the pattern."""

    series: int
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Bars under one name."""

    name: str
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Mark:
    """An event of a timeline at a round, counted from 1."""

    round: int
    letter: str
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The width of each round, run by run: (width, rounds); and what happened."""

    name: str
    runs: Sequence[tuple[int, int]]
    marks: Sequence[Mark]
    note: str


def bars(title: str, groups: Sequence[Group], series: Sequence[str]) -> str:
    """Horizontal bars, grouped, with a legend of `series`."""
    parts = [_legend(series)]
    y = 30
    span = _WIDTH - _LABEL - _VALUE
    for group in groups:
        middle = y + _ROW * len(group.bars) / 2 + 4
        parts.append(_text(_LABEL - 8, middle, _cut(group.name), anchor="end"))
        for bar in group.bars:
            width = max(1.0, bar.share * span)
            parts.append(
                f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_ROW - 4}" '
                f'class="s {_pattern(bar.series)}"/>'
            )
            parts.append(_text(_LABEL + width + 6, y + _ROW - 7, bar.text))
            y += _ROW
        y += 8
    said = "; ".join(
        f"{group.name}: " + ", ".join(f"{series[b.series]} {b.text}" for b in group.bars)
        for group in groups
    )
    return _svg(title, said, y, parts)


def timelines(title: str, lines: Sequence[Timeline], widest: int) -> str:
    """The width of every round as a step line, one row a timeline."""
    height, parts, y = 54, list[str](), 8
    span = _WIDTH - _LABEL - 12
    longest = max((sum(rounds for _, rounds in line.runs) for line in lines), default=1)
    for line in lines:
        parts.append(_text(_LABEL - 8, y + 16, _cut(line.name), anchor="end"))
        parts.append(_text(_LABEL - 8, y + 30, line.note, anchor="end", small=True))
        base = y + height - 16
        parts.append(f'<path class="axis" d="M{_LABEL} {base}h{span}"/>')
        parts.append(f'<path class="step" d="{_steps(line, base, span / longest, widest)}"/>')
        parts += _numbers(line, base, span / longest, widest)
        for mark in line.marks:
            x = _LABEL + (mark.round - 0.5) * span / longest
            parts.append(f'<path class="axis" d="M{x:.1f} {base}v-{height - 26}"/>')
            parts.append(_text(x + 3, y + 10, mark.letter, small=True, title=mark.text))
        y += height
    said = "; ".join(
        f"{line.name}: "
        + ", ".join(f"{rounds} rounds of width {w}" for w, rounds in line.runs)
        + "".join(f", {mark.text} in round {mark.round}" for mark in line.marks)
        + f"; {line.note}"
        for line in lines
    )
    return _svg(title, said, y, parts)


def _steps(line: Timeline, base: float, per_round: float, widest: int) -> str:
    """The path of a step line; a round of width 0 lies on the base."""
    x, path = float(_LABEL), list[str]()
    for width, rounds in line.runs:
        level = base - width / max(1, widest) * 28
        path.append(f"{'L' if path else 'M'}{x:.1f} {level:.1f}h{rounds * per_round:.1f}")
        x += rounds * per_round
    return "".join(path)


def _numbers(line: Timeline, base: float, per_round: float, widest: int) -> list[str]:
    """The width, over each run that has room for it."""
    x, parts = float(_LABEL), list[str]()
    for width, rounds in line.runs:
        if rounds * per_round >= _ROOM:
            level = base - width / max(1, widest) * 28
            parts.append(_text(x + 2, level - 3, str(width), small=True))
        x += rounds * per_round
    return parts


def _legend(series: Sequence[str]) -> str:
    x, parts = _LABEL, []
    for number, name in enumerate(series):
        parts.append(f'<rect x="{x}" y="6" width="14" height="12" class="s {_pattern(number)}"/>')
        parts.append(_text(x + 20, 16, name))
        x += 34 + 8 * len(name)
    return "".join(parts)


def _pattern(series: int) -> str:
    return f"p-{PATTERNS[series % len(PATTERNS)]}"


def _text(  # noqa: PLR0913 - the parts of one label
    x: float, y: float, text: str, *, anchor: str = "start", small: bool = False, title: str = ""
) -> str:
    style = ' class="small"' if small else ""
    hover = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{hover}{escape(text)}</text>'
    )


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else text[: _CHARS - 1] + "…"


def _svg(title: str, description: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" '
        f'height="{height:.0f}"><title>{escape(title)}</title>'
        f"<desc>{escape(description)}</desc>{''.join(parts)}</svg>"
    )
