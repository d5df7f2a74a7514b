"""Diagnostic codes: what the code uses is what `codes.toml` explains, and each is whole."""

import ast
import re

import pytest

from power.diagnostics import CODES, Code
from tests.house.sources import ROOT, package

CODE = re.compile(r"P[1-8]\d\d")


def used_codes() -> dict[str, str]:
    """Code -> the first place that names it as a literal, anywhere in the package."""
    used: dict[str, str] = {}
    for module in package():
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and CODE.fullmatch(node.value)
            ):
                place = f"{module.path.relative_to(ROOT)}:{node.lineno}"
                used.setdefault(node.value, place)
    return used


def test_every_used_code_is_explained() -> None:
    assert {code: place for code, place in used_codes().items() if code not in CODES} == {}


def test_every_explained_code_is_used() -> None:
    assert sorted(set(CODES) - set(used_codes())) == []


@pytest.mark.parametrize("entry", CODES.values(), ids=CODES)
def test_an_entry_is_whole(entry: Code) -> None:
    assert CODE.fullmatch(entry.code)
    assert entry.exit != 0
    assert entry.title == entry.title.strip()
    assert not entry.title.endswith(".")
    assert entry.text.endswith(".")
    assert len(entry.text) > len(entry.title)


def test_codes_stand_in_order() -> None:
    assert list(CODES) == sorted(CODES)


def made_without_hint() -> list[str]:
    """Where an error is made with no word on what to do next; warnings and copies may be."""
    found = []
    for module in package():
        for node in ast.walk(module.tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            keywords = {keyword.arg for keyword in node.keywords}
            if node.func.id not in {"fail", "Diagnostic"} or keywords & {"hint", "severity", None}:
                continue
            if node.keywords:  # all by position: a copy of another diagnostic
                found.append(f"{module.path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_every_error_says_what_to_do_next() -> None:
    assert made_without_hint() == []
