"""The 25 complaints of the field: each has tests that exist, or a word why it cannot occur."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.sources import ROOT, package, texts

PAGE = ROOT / "docs" / "reference" / "complaints.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
COMPLAINTS = 25


def rows() -> dict[int, re.Match[str]]:
    return {int(row[1]): row for row in ROW.finditer(PAGE.read_text("utf-8"))}


def marks(source: str) -> Iterator[tuple[str, int]]:
    """(test, number) of every `@pytest.mark.complaint(n=number)`, tests in classes included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            for decorator in map(ast.unparse, node.decorator_list):
                if found := re.fullmatch(r"pytest\.mark\.complaint\(n=(\d+)\)", decorator):
                    yield node.name, int(found[1])
                else:
                    assert "mark.complaint" not in decorator, f"{node.name}: {decorator}"


def marked() -> set[tuple[int, str]]:
    """(number, test) of the whole tree, a test as the page writes it."""
    return {
        (number, f"{path}::{name}")
        for path, text in texts().items()
        if path.startswith("tests/") and path.endswith(".py")
        for name, number in marks(text)
    }


def named() -> set[tuple[int, str]]:
    """(number, test) of the page."""
    return {
        (number, f"{file}::{name}")
        for number, row in rows().items()
        for file, name in TEST.findall(row[5])
    }


def test_every_complaint_is_there_once() -> None:
    numbers = [int(row[1]) for row in ROW.finditer(PAGE.read_text("utf-8"))]
    assert numbers == list(range(1, COMPLAINTS + 1))


def test_each_has_a_test_or_cannot_occur() -> None:
    without = [number for number, row in rows().items() if not TEST.search(row[5])]
    assert [number for number in without if not rows()[number][4].startswith("Cannot occur")] == []


def test_the_page_names_what_is_marked() -> None:
    assert named() - marked() == set(), "named, but not there or not marked"
    assert marked() - named() == set(), "marked, but not named"


def test_a_mark_is_found_and_a_wrong_one_is_not_passed_over() -> None:
    test = "@pytest.mark.complaint({})\ndef test_it(): ..."
    assert list(marks(test.format("n=7"))) == [("test_it", 7)]
    for wrong in ("7", "n=seven", "number=7"):
        with pytest.raises(AssertionError):
            list(marks(test.format(wrong)))


@pytest.mark.complaint(n=21)
def test_the_high_level_class_is_not_used() -> None:
    """Complaint 21: only the low-level layer of llama-cpp-python is the engine's face."""
    found = [
        f"{module.path.relative_to(ROOT)}:{line} {name}"
        for module in package()
        for line, name in module.imports()
        if name.split(".")[0] == "llama_cpp" and not name.startswith("llama_cpp.llama_cpp")
    ]
    assert found == []
