"""Choosing among every setting by what it would have cost."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from power.diagnostics import PowerError
from power.evidence.planner import Candidate, candidates, choose, judge, ranked, survey
from power.evidence.simulate import Setting
from power.evidence.trace import Trace, TracedCosts
from power.plan.model import Cost
from tests.evidence.test_simulate import record
from tests.property.harness import A, B, C, Case

STEEP = {"1": "1", "2": "1.8", "3": "2.4", "4": "2.9", "8": "4.6"}
REPEATING = Case(prompt=(A, B, C) * 4, forced=tuple((i, (A, B, C)[i % 3]) for i in range(60)))


def traced(case: Case, rows: dict[str, str] | None = None, step: str = "0") -> Trace:
    trace = record(case, "oracle")
    costs = TracedCosts(draft_call="0", draft_step=step, rows=STEEP if rows is None else rows)
    return trace.model_copy(update={"costs": costs, "strategy": "draft-model"})


def cost(rows: dict[str, str]) -> Cost:
    return Cost(draft_call="0", draft_step="0", rebuild="0", refill="0", rows=rows)


def test_every_setting_that_the_passes_allow_is_judged() -> None:
    found = survey(traced(Case(max_tokens=20, left=90)))
    settings = {(one.candidate.setting.strategy, one.candidate.setting.controller) for one in found}
    assert settings == {
        ("prompt-lookup", "fixed"),
        ("prompt-lookup", "cost"),
        ("ngram-context", "fixed"),
        ("ngram-context", "cost"),
        ("draft-model", "fixed"),
        ("draft-model", "adaptive"),
        ("draft-model", "cost"),
    }
    # 5, 6 and 7 rows were not measured: a fixed width may need them at the end of a text.
    widths = {
        one.candidate.setting.draft_max
        for one in found
        if one.candidate.setting.controller == "fixed"
    }
    assert {1, 2, 3} <= widths
    assert widths <= {1, 2, 3, 7}


def test_a_fixed_shape_is_judged_at_every_row_count_that_holds_the_proposal() -> None:
    trace = traced(Case(max_tokens=9))
    found = {
        (one.setting.draft_max, one.rows) for one in candidates(trace, cost(STEEP), fixed=True)
    }
    assert {(1, 2), (1, 8), (3, 4), (7, 8)} <= found
    assert all(rows is not None and rows > k for k, rows in found)


def test_what_is_accepted_whole_is_as_fast_as_its_pass_allows() -> None:
    """Ten tokens in rounds of 4, 4 and 2 at 2.9, 2.9 and 1.8 passes."""
    trace = traced(Case(max_tokens=10, left=90, seed=1))
    found = judge(trace, cost(STEEP), Candidate(Setting("draft-model", 3)))
    assert found is not None
    assert found.speed_ups == (Fraction(100, 76),)
    assert found.prediction().speed_up == "1.3158"
    drafted = judge(
        trace,
        Cost(draft_call="0.1", draft_step="0.1", rebuild="0", refill="0", rows=STEEP),
        Candidate(Setting("draft-model", 3)),
    )
    assert drafted is not None
    assert drafted.speed_ups == (Fraction(100, 86),)


def test_the_best_that_never_loses_much_is_chosen() -> None:
    trace = traced(Case(max_tokens=30, left=90, seed=1))
    best = choose(survey(trace))
    assert best is not None
    assert (best.candidate.setting.strategy, best.candidate.setting.draft_max) == ("draft-model", 7)
    assert best == ranked(survey(trace))[0]


@pytest.mark.complaint(n=2)
def test_off_where_nothing_pays() -> None:
    dear = {str(rows): str(rows) for rows in range(1, 9)}
    assert choose(survey(traced(Case(max_tokens=30, left=90, seed=1), dear))) is None


def test_a_draft_that_is_too_dear_leaves_the_lookups() -> None:
    found = choose(survey(traced(REPEATING, step="0.9")))
    assert found is None or found.candidate.setting.strategy != "draft-model"


def test_a_trace_without_costs_is_refused() -> None:
    with pytest.raises(PowerError) as caught:
        survey(record(Case(), "oracle"))
    assert [d.code for d in caught.value.diagnostics] == ["P807"]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: {"costs": TracedCosts(draft_call="0", draft_step="0", rows={})},
        lambda t: {"costs": TracedCosts(draft_call="0", draft_step="0", rows={"2": "1"})},
        lambda t: {"costs": TracedCosts(draft_call="0", draft_step="0", rows={"1": "-1"})},
        lambda t: {"strategy": "oracle"},
        lambda t: {"requests": [t.requests[0].model_copy(update={"finish": "end"})]},
        lambda t: {"requests": [t.requests[0].model_copy(update={"ids": t.requests[0].ids[:4]})]},
    ],
)
def test_a_trace_that_no_run_gives(change: Callable[[Trace], dict[str, Any]]) -> None:
    trace = traced(REPEATING)
    with pytest.raises(PowerError) as refused:
        survey(trace.model_copy(update=change(trace)))
    assert [d.code for d in refused.value.diagnostics] == ["P806"]
