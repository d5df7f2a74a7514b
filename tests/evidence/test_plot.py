"""Plots that can be read in any light and without colour."""

from __future__ import annotations

from fractions import Fraction
from xml.etree import ElementTree as ET

from power.evidence.plot import WIDTH, bars, curve

SPEEDS = {
    "fixed <K 7>": {"copy": Fraction(3, 2), "prose & more": Fraction(4, 5)},
    "cost": {"copy": Fraction(7, 5), "prose & more": Fraction(1)},
}


def texts(svg: str) -> list[str]:
    """What is written in a plot; it has to be well-formed."""
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    return [element.text or "" for element in root.iter() if element.tag.endswith("}text")]


def test_bars_are_named_and_their_values_written() -> None:
    assert texts(bars("Speed", SPEEDS)) == [
        "Speed",
        "fixed <K 7>",
        "cost",
        "copy",
        "1.5",
        "1.4",
        "prose & more",
        "0.8",
        "1",
    ]


def test_bars_stay_within_the_plot() -> None:
    root = ET.fromstring(bars("Speed", SPEEDS))
    rects = [e for e in root.iter() if e.tag.endswith("}rect") and "x" in e.attrib]
    assert all(float(e.attrib["x"]) + float(e.attrib["width"]) < WIDTH for e in rects)


def test_series_differ_by_pattern_and_the_reader_chooses_the_light() -> None:
    plot = bars("Speed", SPEEDS)
    assert "url(#stripes)" in plot
    assert "prefers-color-scheme: dark" in plot


def test_a_curve_shows_every_point() -> None:
    plot = curve("Cost", [(1, Fraction(1)), (2, Fraction(9, 5)), (8, Fraction(23, 5))])
    assert plot.count("<circle") == 3
    for value in ("1", "1.8", "4.6", "8"):
        assert value in texts(plot)


def test_the_same_values_give_the_same_bytes() -> None:
    assert bars("Speed", SPEEDS) == bars("Speed", SPEEDS)
