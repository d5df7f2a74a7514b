"""Plots as SVG text: bars by prompt and a curve by rows. Pure, and the same bytes every time.

Light and dark follow the reader's setting. Series differ by fill pattern and by
marker, and values are written out, so nothing depends on colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from html import escape

from power.evidence.statistics import decimal

WIDTH = 720
_LEFT, _RIGHT, _TOP = 130, 60, 44
_BAR, _GAP = 12, 8
_STYLE = """\
<style>
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 14px }
  .page { fill: #ffffff }
  .line { stroke: #1f2328; fill: none; stroke-width: 1.5 }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .one { stroke: #1f2328; stroke-width: 1; stroke-dasharray: 4 3 }
  .s0 { fill: #0969da; stroke: #0969da } .s1 { fill: url(#stripes); stroke: #9a6700 }
  .s2 { fill: none; stroke: #1f2328 }
  .mark { stroke: #9a6700; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .page { fill: #0d1117 } .line, .one { stroke: #e6edf3 }
    .grid { stroke: #30363d } .s0 { fill: #4493f8; stroke: #4493f8 } .s1 { stroke: #d29922 }
    .s2 { stroke: #e6edf3 } .mark { stroke: #d29922 }
  }
</style>
<defs><pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" \
patternTransform="rotate(45)"><line class="mark" x1="0" y1="0" x2="0" y2="6"/></pattern></defs>
"""


def bars(title: str, series: Mapping[str, Mapping[str, Fraction]]) -> str:
    """Horizontal bars by name, one for each of at most three series, and a line at 1.

    series: name of the series -> name of the bar -> value (> 0); every series has
    the same names.
    """
    names = list(next(iter(series.values())))
    most = max(Fraction(1), *(value for one in series.values() for value in one.values()))
    step = _BAR * len(series) + _GAP
    legend = _TOP + 4
    top = legend + 22
    height = top + step * len(names) + 16
    scale = Fraction(WIDTH - _LEFT - _RIGHT) / most
    out = [_open(title, height)]
    for number, name in enumerate(series):
        x = _LEFT + 190 * number
        out.append(f'<rect class="s{number}" x="{x}" y="{legend - 10}" width="14" height="10"/>')
        out.append(f'<text x="{x + 20}" y="{legend}">{escape(name)}</text>')
    one = _LEFT + round(scale)
    out.append(f'<line class="one" x1="{one}" y1="{top - 6}" x2="{one}" y2="{height - 10}"/>')
    for row, name in enumerate(names):
        y = top + step * row
        middle = y + (_BAR * len(series)) // 2 + 4
        out.append(f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>')
        for number, values in enumerate(series.values()):
            out += _bar(number, y + _BAR * number, values[name], scale)
    return "\n".join([*out, "</svg>", ""])


def _bar(number: int, y: int, value: Fraction, scale: Fraction) -> Iterator[str]:
    width = max(1, round(value * scale))
    yield (f'<rect class="s{number}" x="{_LEFT}" y="{y}" width="{width}" height="{_BAR - 3}"/>')
    yield f'<text x="{_LEFT + width + 5}" y="{y + _BAR - 3}">{decimal(value, 2)}</text>'


def curve(title: str, points: Sequence[tuple[int, Fraction]]) -> str:
    """A line through the cost of a pass by its rows, each point with its value.

    points: (rows, cost in passes of one row), ascending, at least one.
    """
    height, bottom = 340, 290
    last, most = points[-1][0], max(cost for _, cost in points)
    across = Fraction(WIDTH - _LEFT - _RIGHT, max(1, last))
    up = Fraction(bottom - _TOP - 24) / most
    out = [_open(title, height)]
    for mark in range(int(most) + 1):
        y = bottom - round(mark * up)
        out.append(f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{WIDTH - _RIGHT}" y2="{y}"/>')
        out.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{mark}</text>')
    places = [(_LEFT + round(rows * across), bottom - round(cost * up)) for rows, cost in points]
    path = " ".join(f"{x},{y}" for x, y in places)
    out.append(f'<polyline class="line" points="{path}"/>')
    for (rows, cost), (x, y) in zip(points, places, strict=True):
        out.append(f'<circle class="s0" cx="{x}" cy="{y}" r="4"/>')
        out.append(f'<text x="{x}" y="{y - 9}" text-anchor="middle">{decimal(cost, 2)}</text>')
        out.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{rows}</text>')
    out.append(f'<text x="{_LEFT}" y="{bottom + 38}">rows of a pass; cost in passes of one</text>')
    return "\n".join([*out, "</svg>", ""])


def _open(title: str, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(title)}">\n{_STYLE}'
        f'<rect class="page" width="{WIDTH}" height="{height}"/>\n'
        f'<text class="title" x="{_LEFT}" y="24">{escape(title)}</text>'
    )
