"""What a terminal gets to see: one screen at most, and nothing that it would obey."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.diagnostics import Diagnostic, Span, as_github, as_json, as_text, counted, escape

ANY = st.text(max_size=300)


def shown(source: str, column: int, width: int = 1) -> list[str]:
    span = Span("f", 1, column, width, source, "here")
    return as_text([Diagnostic("P109", "no", (span,))]).splitlines()


@pytest.mark.parametrize("length", [10, 99, 100, 101, 5_000, 1_000_000])
@pytest.mark.parametrize("at", [0, 0.5, 1])
def test_the_marked_part_of_a_long_line_is_shown(length: int, at: float) -> None:
    place = int(at * (length - 1))
    _, _, line, carets = shown("a" * place + "!" + "b" * (length - place - 1), place + 1)
    assert line[carets.index("^")] == "!"
    assert len(line) <= len("1 | ") + 100
    assert (line[4] == "…") == (place > 50)
    assert (line[-1] == "…") == (min(place, 50) + length - place > 100)


def test_a_wide_mark_is_cut_with_its_line() -> None:
    _, _, line, carets = shown("x" * 1000, 150, 120)
    assert line == "1 | …" + "x" * 98 + "…"
    assert carets == "  | " + " " * 50 + "^" * 50 + " here"


def test_a_mark_stands_below_letters_that_take_two_columns() -> None:
    _, _, line, carets = shown('名 = "e\u0301" # x', 5, 4)
    assert line == '1 | 名 = "e\u0301" # x'
    assert carets == "  |      ^^^ here"


def test_escapes_are_marked_whole() -> None:
    _, _, line, carets = shown('k = "\x1b[2J"', 6)
    assert line == '1 | k = "\\x1b[2J"'
    assert carets == "  |      ^^^^ here"


@given(st.tuples(ANY, ANY, ANY, ANY), st.integers(1, 310), st.integers(1, 310))
def test_nothing_of_a_file_reaches_a_terminal_raw(
    texts: tuple[str, str, str, str], column: int, width: int
) -> None:
    message, place, source, value = texts
    line = source.replace("\n", "")
    span = Span(place, 1, min(column, len(line) + 1), width, line, "label")
    found = [Diagnostic("P109", message, (span,), place, value, value, value)]
    for text in (as_text(found), as_github(found)):
        assert all(line.isprintable() for line in text.split("\n"))
    assert as_json(found)[0]["message"] == message


def test_a_count_agrees_with_its_word() -> None:
    assert [counted(n, "report") for n in range(3)] == ["no reports", "1 report", "2 reports"]
    assert counted(2, "quality matrix", "quality matrices") == "2 quality matrices"


@given(ANY)
def test_an_escape_is_printable_and_leaves_printable_text_alone(text: str) -> None:
    assert escape(text).isprintable()
    assert text.isprintable() == (escape(text) == text)
