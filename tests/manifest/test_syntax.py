"""Text that is not TOML, or more of it than anybody needs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from power.diagnostics import Diagnostic
from power.manifest.load import parse_manifest
from power.manifest.syntax import NESTING_LIMIT, deep_key, parse

Refused = Callable[[str | bytes], tuple[Diagnostic, ...]]


def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
    span = diagnostic.spans[0]
    return span.line, span.column, span.width


@pytest.mark.parametrize(
    ("line", "column", "hint"),
    [
        ("batch 7", 7, "write `key = value`"),
        ("batch = 7 8", 11, "one `key = value` on each line"),
        ("batch = True", 9, "written in lower case"),
        ("batch = seven", 9, "strings need quotes"),
        ('source = "a', 12, "close the string on the line"),
        (r'source = "C:\models"', 15, "single quotes"),
    ],
)
def test_a_syntax_error_is_placed_and_hinted(
    head: str, refused: Refused, line: str, column: int, hint: str
) -> None:
    (diagnostic,) = refused(f"{head}{line}\n")
    assert diagnostic.code == "P109"
    assert place(diagnostic) == (8, column, 1)
    assert diagnostic.hint is not None
    assert hint in diagnostic.hint


@pytest.mark.parametrize("tail", ["x = [1,", "x =", 'x = """a\n', "x = {a = ["])
def test_a_file_that_was_cut_off_says_so(head: str, refused: Refused, tail: str) -> None:
    (diagnostic,) = refused(head + tail)
    assert diagnostic.hint is not None
    assert "ends in the middle" in diagnostic.hint


def test_conflict_markers_are_told_as_such(head: str, refused: Refused) -> None:
    (diagnostic,) = refused(
        f"{head}<<<<<<< HEAD\nsource = 'a'\n=======\nsource = 'b'\n>>>>>>> topic\n"
    )
    assert diagnostic.code == "P107"
    assert [span.line for span in diagnostic.spans] == [8, 12]


def test_markers_inside_a_string_are_text(head: str) -> None:
    grammar = '[sampling]\ngrammar = """\n<<<<<<< HEAD\n"""\n'
    loaded = parse_manifest((head + grammar).encode(), "m")
    assert loaded.manifest.sampling.grammar == "<<<<<<< HEAD\n"


@pytest.mark.complaint(n=23)
@pytest.mark.parametrize(
    ("text", "name", "lines"),
    [
        ("bytes = 2\n", "bytes", (8, 6)),
        ("[target]\n", "[target]", (8, 4)),
        ("[graph]\nbatch = 9\n\n[host]\n[graph]\n", "[graph]", (12, 8)),
        ("[graph]\nbatch = 9\n# batch = 1\nbatch = 9\n", "batch", (11, 9)),
    ],
)
def test_both_places_of_what_is_written_twice(
    head: str, refused: Refused, text: str, name: str, lines: tuple[int, int]
) -> None:
    (diagnostic,) = refused(head + text)
    assert diagnostic.code == "P110"
    assert diagnostic.message == f"`{name}` is written twice"
    assert tuple(span.line for span in diagnostic.spans) == lines
    assert [span.label for span in diagnostic.spans] == ["and again here", "first written here"]


def test_a_key_of_another_table_is_not_the_first_of_two(head: str, refused: Refused) -> None:
    text = head + "[host]\nthreads = 1\n[graph]\nx.threads = 1\nx.threads = 2\n"
    (diagnostic,) = refused(text)
    assert [span.line for span in diagnostic.spans] == [12, 11]


def test_a_key_twice_in_an_inline_table(head: str, refused: Refused) -> None:
    (diagnostic,) = refused(head + "x = {a = 1, a = 2}\n")
    assert (diagnostic.code, diagnostic.spans[0].line) == ("P110", 8)
    assert diagnostic.message == "`a` is written twice in one inline table"


def test_the_nesting_limit_is_exact() -> None:
    allowed = "x = " + "[" * NESTING_LIMIT + "]" * NESTING_LIMIT
    assert "x" in parse(allowed, "f", "manifest")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a." * 200_000 + "a = 1", 0),
        ("[" + "a . " * 200_000 + "a]", 1),
        ("x = {" + "'a' .\t\"b.c\"." * 100_000 + "a = 1}", 5),
        ('x = """a.\n"""\n' + "a." * 200 + "a = 1", 14),
    ],
)
def test_a_key_of_many_dots_is_found_before_parsing(text: str, place: int) -> None:
    assert deep_key(text) == place


@pytest.mark.parametrize(
    "text",
    [
        "x = '" + "a." * 99 + "'  # " + "a." * 99,
        'x = """\\"""' + "a.a\\\n" * 99 + '"""""\n\'\'\'' + "a." * 99,
        '"' + "a." * 99 + '".b = 1',
        ".".join("a" * (NESTING_LIMIT + 1)) + " = 1",
        "a = 1.5\n" * 99,
        "a" * 500_000,
        '\\"""' * 100_000,
    ],
)
def test_dots_elsewhere_are_no_depth(text: str) -> None:
    assert deep_key(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * (NESTING_LIMIT + 1) + "]" * (NESTING_LIMIT + 1),
        ".".join("a" * (NESTING_LIMIT + 2)) + " = 1",
        "[" + ".".join("a" * 500) + "]",
        "x = " + "[" * 100_000 + "]" * 100_000,
    ],
    ids=["arrays", "dotted key", "header", "beyond the parser's own stack"],
)
def test_deep_nesting_is_refused(head: str, refused: Refused, text: str) -> None:
    (diagnostic,) = refused(f"{head}{text}\n")
    assert diagnostic.code == "P111"


def test_a_number_of_too_many_digits(head: str, refused: Refused) -> None:
    (diagnostic,) = refused(head + "x = " + "9" * 5000 + "\n")
    assert diagnostic.code == "P109"
    assert place(diagnostic) == (8, 5, 120)
