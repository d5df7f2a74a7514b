"""The scheduler emits what plain decoding emits, whatever is proposed and whatever fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power.backends.scripted.faults import Step
from power.speculation.outcome import ControllerKind, Finish
from tests.property import sweeps
from tests.property.harness import VOCABULARY, Case, check


@pytest.mark.complaint(n=9)
@pytest.mark.complaint(n=10)
@pytest.mark.complaint(n=13)
@pytest.mark.complaint(n=14)
@pytest.mark.parametrize("sweep", sweeps.SWEEPS)
def test_every_case_equals_plain_decoding(sweep: str) -> None:
    for case in sweeps.SWEEPS[sweep]():
        check(case)


def test_the_sweeps_hold_ten_thousand_cases() -> None:
    assert sum(1 for sweep in sweeps.SWEEPS.values() for _ in sweep()) >= 10_000


def test_the_sweeps_reach_every_end_and_event() -> None:
    """A sample is enough: a sweep that never fires the guard would prove nothing about it."""
    runs = [
        check(case)
        for sweep in sweeps.SWEEPS.values()
        for i, case in enumerate(sweep())
        if i % 17 == 0
    ]
    assert {r.outcome.finish for r in runs} == set(Finish)
    counters = [r.outcome.counters for r in runs]
    assert any(c.guard_round for c in counters)
    assert any(c.widened_round for c in counters)
    assert any(c.replays for c in counters)
    assert any(r.outcome.text and len(r.outcome.ids) > 1 for r in runs)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any request at all, its interruption included."""
    k = draw(st.integers(0, 8))
    interruption = draw(st.sampled_from(["none", "none", "cancel", "fault", "reader"]))
    at = draw(st.integers(0, 40))
    step = draw(st.sampled_from([s for s in Step if s not in {Step.LOAD, Step.RESTORE}]))
    token = st.integers(0, VOCABULARY.size - 1)
    stop = st.text("abc.x😀", min_size=1, max_size=4)
    return Case(
        seed=draw(st.integers(0, 2**32)),
        prompt=tuple(draw(st.lists(token, min_size=1, max_size=6))),
        draft_max=k,
        snapshots=draw(st.integers(1, 9)),
        draft_min=draw(st.integers(0, k)),
        recurrent=draw(st.booleans()),
        fixed=draw(st.booleans()),
        spare=draw(st.integers(0, 3)),
        controller=draw(st.sampled_from(sweeps.CONTROLLERS)),
        proposer=draw(st.sampled_from(sweeps.PROPOSERS)),
        sampling=draw(st.sampled_from(sweeps.SAMPLINGS)),
        stop=tuple(text.encode() for text in draw(st.lists(stop, max_size=3))),
        max_tokens=draw(st.integers(1, 30)),
        left=draw(st.integers(0, 40)),
        forced=tuple(draw(st.dictionaries(st.integers(0, 29), token, max_size=4)).items()),
        trim=draw(st.sampled_from(["honest", "refuse"])),
        cancel_at=at if interruption == "cancel" else None,
        fault=(step, at // 4 + 1) if interruption == "fault" else None,
        emit_fails_at=at // 4 if interruption == "reader" else None,
    )


@settings(max_examples=1500)
@given(cases())
def test_any_case_equals_plain_decoding(case: Case) -> None:
    check(case)


@pytest.mark.complaint(n=1)
@pytest.mark.complaint(n=17)
@settings(max_examples=300)
@given(
    cases(),
    st.integers(0, 8),
    st.sampled_from(sweeps.PROPOSERS),
    st.sampled_from(sweeps.CONTROLLERS),
)
def test_the_output_does_not_depend_on_the_proposal(
    case: Case, k: int, proposer: str, controller: ControllerKind
) -> None:
    """Two widths and two proposers: the same tokens, text and random draws."""
    whole = _uninterrupted(case)
    other = _uninterrupted(case, draft_max=k, draft_min=0, proposer=proposer, controller=controller)
    first, second = check(whole), check(other)
    assert first.outcome.ids == second.outcome.ids
    assert first.outcome.text == second.outcome.text
    assert first.outcome.finish == second.outcome.finish
    assert first.sampler.state == second.sampler.state


def _uninterrupted(case: Case, **changes: Any) -> Case:
    return replace(case, cancel_at=None, fault=None, emit_fails_at=None, **changes)


@pytest.mark.parametrize("kind", ["oracle", "wrong-at-1", "empty"])
def test_a_lying_trim_is_seen_by_the_harness(kind: str) -> None:
    """Negative control: an engine that keeps rejected rows breaks the property."""
    case = Case(proposer="wrong-at-1", trim="lie", max_tokens=20)
    with pytest.raises(AssertionError):
        check(case)
    check(Case(proposer=kind, trim="honest", max_tokens=20))
