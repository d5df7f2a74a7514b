"""Quality matrices for people: the same words each time, markup that no task can break."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import PowerError
from power.evidence.pages import read_page
from power.evidence.quality_report import Matrix
from power.evidence.quality_view import matrix_html, matrix_markdown, matrix_text, verdict
from tests.evidence.conftest import Scripted
from tests.evidence.matrices import ending_plan, matrix, run
from tests.evidence.pages import BROWSER, Page, drawn

SHA = "5" * 64
HOSTILE = "<script>alert(1)</script>|`x`\u202e"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """A real matrix of three modes that missed gates, its times and its host replaced."""
    scripted = Scripted(tmp_path_factory.mktemp("matrix"))
    arms = [
        scripted.arm("off", ending_plan("off")),
        scripted.arm("lookup", ending_plan("prompt-lookup")),
        scripted.arm("seeded", ending_plan("prompt-lookup", temperature=0.9, seed=8)),
    ]
    made = run(scripted, matrix(scripted, arms, repetitions=1))
    host = made.host.model_copy(
        update={"cpu": "A CPU", "os": "Linux", "physical_cores": 2, "memory_bytes": 1}
    )
    return made.model_copy(
        update={
            "modes": [mode.model_copy(update={"plan_sha256": SHA}) for mode in made.modes],
            "host": host,
            "engine": made.engine.model_copy(update={"version": "1.0"}),
            "started": "2026-08-23T10:11:12Z",
            "finished": "2026-08-23T10:11:13Z",
        }
    )


def scored(report: Matrix) -> Matrix:
    """The same where the base got something right, and no limit cut it."""
    base = report.scores[0].model_copy(update={"lenient": 2, "strict": 1, "truncated": 1})
    task = report.by_task[0]
    answers: list[dict[str, Any]] = [
        {"strict": True, "lenient": True, "truncated": False, "answer": "5"},
        {"strict": False, "lenient": True, "truncated": True, "answer": "5 " * 90},
        {"strict": False, "lenient": False, "truncated": False, "stable": False, "answer": None},
    ]
    modes = [m.model_copy(update=u) for m, u in zip(task.modes, answers, strict=True)]
    rows = [task.model_copy(update={"modes": modes}), *report.by_task[1:]]
    return report.model_copy(update={"scores": [base, *report.scores[1:]], "by_task": rows})


def hostile(report: Matrix) -> Matrix:
    def renamed(task: Any) -> Any:
        modes = [m.model_copy(update={"answer": HOSTILE}) for m in task.modes]
        return task.model_copy(update={"task": HOSTILE, "expected": HOSTILE, "modes": modes})

    def lost(pair: Any) -> Any:
        change = pair.lenient.model_copy(update={"losses": [HOSTILE]})
        return pair.model_copy(update={"lenient": change})

    return report.model_copy(
        update={
            "by_task": [renamed(task) for task in report.by_task],
            "pairs": [lost(pair) for pair in report.pairs],
            "host": report.host.model_copy(update={"cpu": HOSTILE, "devices": [HOSTILE]}),
        }
    )


def test_the_terminals_text(report: Matrix, snapshot: Any) -> None:
    assert matrix_text(report) == snapshot


@pytest.mark.parametrize("edit", [lambda r: r, scored], ids=["weak", "scored"])
def test_the_markdown_reads_well(
    report: Matrix, edit: Callable[[Matrix], Matrix], snapshot: Any
) -> None:
    assert matrix_markdown(edit(report), SHA) == snapshot


def test_the_page_nests_and_needs_nothing_else(report: Matrix) -> None:
    text = matrix_html(scored(report), SHA)
    page = Page(text)
    assert page.all("script") == page.all("link") == page.all("img") == []
    assert re.findall(r"(?:https?:)?//[a-z]", text) == []
    assert [row for row in page.all("th") if row.get("scope") not in {"row", "col"}] == []
    words = " ".join("".join(page.words).split())
    assert "lookup against off: eligible as production default" in words
    assert "seeded against off: not eligible as production default: missed identity" in words
    assert "strict: 5" in words
    assert "wrong: not the same each time" in words


def test_the_verdict_says_how_much_was_cut(report: Matrix) -> None:
    pair = report.pairs[0]
    share = pair.untruncated_outputs.model_copy(update={"equal": 1, "of": 1})
    assert verdict(pair) == "eligible as production default"
    assert verdict(pair.model_copy(update={"untruncated_outputs": share})) == (
        "eligible as production default; 3 of 4 outputs only up to where a limit cut them"
    )


def test_nothing_in_a_report_becomes_markup(report: Matrix) -> None:
    page = Page(matrix_html(hostile(report), SHA))
    assert page.all("script") == []
    assert "<script>alert(1)</script>|`x`\\u202e" in "".join(page.words)
    assert "\u202e" not in "".join(page.words) + matrix_text(hostile(report))
    markdown = matrix_markdown(hostile(report), SHA)
    assert "<script>" not in re.sub(r"`+ ?[^\n]*", "", markdown)


def test_a_file_that_is_no_matrix(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text('{"schema": "power.quality-report.v1", "modes": []}')
    with pytest.raises(PowerError) as refused:
        read_page(path)
    assert {d.code for d in refused.value.diagnostics} == {"P801"}


@pytest.mark.skipif(BROWSER is None, reason="NO BROWSER looked at the page: install chromium")
def test_a_browser_renders_it_in_light_and_dark(report: Matrix, tmp_path: Path) -> None:
    light, dark = drawn(matrix_html(hostile(report), SHA), tmp_path)
    assert light != dark
