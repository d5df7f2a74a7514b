"""The 25 complaints of the field: each has tests that exist, or a word why it cannot occur."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.house.sources import ROOT, package

PAGE = ROOT / "docs" / "reference" / "complaints.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
COMPLAINTS = 25


def rows() -> dict[int, re.Match[str]]:
    return {int(row[1]): row for row in ROW.finditer(PAGE.read_text("utf-8"))}


@cache
def named_in(file: str) -> frozenset[str]:
    """The names of the tests in a file, those in classes included."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def test_every_complaint_is_there_once() -> None:
    numbers = [int(row[1]) for row in ROW.finditer(PAGE.read_text("utf-8"))]
    assert numbers == list(range(1, COMPLAINTS + 1))


def test_each_has_a_test_or_cannot_occur() -> None:
    without = [number for number, row in rows().items() if not TEST.search(row[5])]
    assert [number for number in without if not rows()[number][4].startswith("Cannot occur")] == []


def test_every_test_that_is_named_exists() -> None:
    named = TEST.findall(PAGE.read_text("utf-8"))
    assert [f"{file}::{name}" for file, name in named if name not in named_in(file)] == []


def test_the_high_level_class_is_not_used() -> None:
    """Complaint 21: only the low-level layer of llama-cpp-python is the engine's face."""
    found = [
        f"{module.path.relative_to(ROOT)}:{line} {name}"
        for module in package()
        for line, name in module.imports()
        if name.split(".")[0] == "llama_cpp" and not name.startswith("llama_cpp.llama_cpp")
    ]
    assert found == []
