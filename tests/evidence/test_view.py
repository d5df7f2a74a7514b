"""Reports for people: the same words each time, markup that nothing in a report can break."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from power.evidence.report import Report
from power.evidence.samples import Sample
from power.evidence.view import report_html, report_markdown
from tests.evidence.conftest import Scripted
from tests.evidence.pages import BROWSER, Page, drawn
from tests.receipt.scripted import scripted_plan

SHA = "5" * 64
HOSTILE = "<script>alert(1)</script>|`x`\u202e"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A real report, with its times and its host replaced by fixed ones."""
    scripted = Scripted(tmp_path_factory.mktemp("report"))
    plan = scripted_plan("prompt-lookup")
    arms = [scripted.arm("control", plan, control=True), scripted.arm("plan", plan)]
    made = scripted.run(scripted.bench(arms, rounds=1, warmup=0))

    def fixed(part: Any) -> Any:
        named = {
            "decode_tok_s": "100.5"
            if isinstance(getattr(part, "decode_tok_s", None), str)
            else None,
            "request_tok_s": "80",
            "first_token_us": 1000,
            "wall_us": 5000,
            "peak_rss_bytes": 1 << 20,
            "phases_us": {"prefill": 1000, "verify": 4000},
            "first_tokens": 1,
        }
        return part.model_copy(
            update={
                k: v for k, v in named.items() if k in type(part).model_fields and v is not None
            }
        )

    rates = type(made.figures[0].decode_tok_s)
    assert rates is not type(None)
    figures = [
        fixed(f).model_copy(
            update={
                "decode_tok_s": made.figures[0].decode_tok_s.model_copy(  # type: ignore[union-attr]
                    update={"median": "100.5", "minimum": "90", "maximum": "110"}
                )
            }
        )
        for f in made.figures
    ]
    host = made.host.model_copy(
        update={"cpu": "A CPU", "os": "Linux", "physical_cores": 2, "memory_bytes": 1}
    )
    return made.model_copy(
        update={
            "arms": [arm.model_copy(update={"plan_sha256": SHA}) for arm in made.arms],
            "figures": figures,
            "by_prompt": [fixed(p) for p in made.by_prompt],
            "samples": [fixed(s) for s in made.samples],
            "host": host,
            "engine": made.engine.model_copy(update={"version": "1.0"}),
            "started": "2026-08-23T10:11:12Z",
            "finished": "2026-08-23T10:11:13Z",
        }
    )


def with_events(report: Report) -> Report:
    """A sample of the plan that widened, replayed and opened the circuit."""

    def edit(sample: Sample) -> Sample:
        if sample.arm != "plan":
            return sample
        run = type(sample.width_by_round[0])
        return sample.model_copy(
            update={
                "width_by_round": [run(width=2, rounds=3), run(width=4, rounds=9)],
                "guard_round": 5,
                "widened_round": 4,
                "circuit_round": 12,
                "replays": 1,
            }
        )

    return report.model_copy(update={"samples": [edit(s) for s in report.samples]})


def hostile(report: Report) -> Report:
    def renamed(part: Any) -> Any:
        return part.model_copy(update={"prompt": HOSTILE}) if part.prompt == "sea" else part

    return report.model_copy(
        update={
            "by_prompt": [renamed(p) for p in report.by_prompt],
            "samples": [renamed(s) for s in report.samples],
            "host": report.host.model_copy(update={"cpu": HOSTILE, "devices": [HOSTILE]}),
        }
    )


def test_the_markdown_reads_well(report: Report, snapshot: Any) -> None:
    assert report_markdown(report, SHA) == snapshot


def test_the_page_nests_and_needs_nothing_else(report: Report) -> None:
    text = report_html(with_events(report), SHA)
    page = Page(text)
    assert page.all("script") == page.all("link") == page.all("img") == []
    assert re.findall(r"(?:https?:)?//[a-z]", text) == []
    assert len(page.all("svg")) == 1 + 3  # the patterns, and a chart each
    assert len(page.all("desc")) == 3
    assert [row for row in page.all("th") if row.get("scope") not in {"row", "col"}] == []


def test_charts_say_in_words_what_they_show(report: Report) -> None:
    text = report_html(with_events(report), SHA)
    assert "sea (plan): 3 rounds of width 2, 9 rounds of width 4" in text
    assert "the guard clamped the width in round 5" in text
    assert "the circuit opened: target only in round 12; 1 replay" in text
    assert "sea: control 100.5 tok/s, plan 100.5 tok/s" in text


def test_arms_differ_by_pattern(report: Report) -> None:
    rects = Page(report_html(report, SHA)).all("rect")
    assert {attrs["class"] for attrs in rects} == {"s p-solid", "s p-hatch"}
    assert all("fill" not in attrs for attrs in rects)


def test_nothing_in_a_report_becomes_markup(report: Report) -> None:
    page = Page(report_html(hostile(report), SHA))
    assert page.all("script") == []
    assert "<script>alert(1)</script>|`x`\\u202e" in "".join(page.words)
    assert "\u202e" not in "".join(page.words)
    markdown = report_markdown(hostile(report), SHA)
    assert "<script>" not in re.sub(r"`+ ?[^\n]*", "", markdown)


def test_a_plan_that_never_speculates_has_no_empty_charts(scripted: Scripted) -> None:
    arms = [scripted.arm("off", scripted_plan("off"))]
    page = Page(report_html(scripted.run(scripted.bench(arms, rounds=1, warmup=0)), SHA))
    assert len(page.all("svg")) == 1 + 1  # the patterns, and the speeds


@pytest.mark.skipif(BROWSER is None, reason="NO BROWSER looked at the page: install chromium")
def test_a_browser_renders_it_in_light_and_dark(report: Report, tmp_path: Path) -> None:
    """No error on the console, every chart laid out, and two different pictures."""
    light, dark = drawn(report_html(with_events(hostile(report)), SHA), tmp_path)
    assert light != dark
