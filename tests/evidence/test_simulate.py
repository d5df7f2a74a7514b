"""A simulated run is the real one, round by round, whatever the setting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from power.backends.lookup import NgramContext, PromptLookup
from power.backends.none import NoProposer
from power.backends.scripted.draft import ModelDraft
from power.backends.scripted.sampler import ScriptedSampler
from power.backends.told import Recorder
from power.diagnostics import PowerError
from power.evidence.simulate import Setting, Simulated, simulate
from power.evidence.trace import Trace, Traced, parse_trace, trace_bytes
from power.speculation.controller import make_controller
from power.speculation.outcome import Counters, Outcome, Settings
from power.speculation.protocols import Proposer
from power.speculation.scheduler import generate
from tests.property import sweeps
from tests.property.harness import COSTS, VOCABULARY, Case, WatchedTarget

RECORDED = 9
KINDS = ("oracle", "anti-oracle", "random", "wrong-at-0", "wrong-at-2", "empty", "too-long")


def proposer_of(kind: str, case: Case, k: int) -> Proposer:
    lookups = {"prompt-lookup": PromptLookup, "ngram-context": NgramContext}
    if kind in lookups:
        return lookups[kind](k)
    return ModelDraft(case.model(), k, kind)


def run(case: Case, proposer: Proposer, plan: Settings) -> tuple[Outcome, WatchedTarget]:
    """The real scheduler on the scripted backend."""
    target = WatchedTarget(
        case.model(),
        context=plan.context,
        window=plan.window if case.recurrent else None,
        rows=None,
        batch=plan.draft_max + 2,
    )
    inner = proposer._proposer if isinstance(proposer, Recorder) else proposer
    outcome = generate(
        prompt=case.prompt,
        target=target,
        proposer=proposer,
        sampler=ScriptedSampler(target.row, case.sampling, case.grammar()),
        vocabulary=VOCABULARY,
        controller=make_controller(plan, inner),
        settings=plan,
        max_tokens=case.max_tokens,
        stop=case.stop,
        emit=lambda _ids, _text: None,
        cancelled=lambda: False,
        clock=lambda: 0,
    )
    assert outcome.error is None
    return outcome, target


def record(case: Case, kind: str) -> Trace:
    """A target-only run at the largest K, with what would have been proposed."""
    recorder = Recorder(proposer_of(kind, case, RECORDED))
    wide = replace(case, draft_max=RECORDED, draft_min=0, controller="fixed").settings
    outcome, _ = run(case, recorder, wide)
    lookup = kind in {"prompt-lookup", "ngram-context"}
    request = Traced(
        id="one",
        prompt_ids=list(case.prompt),
        ids=list(outcome.ids),
        finish=outcome.finish.value,  # type: ignore[arg-type]
        max_tokens=case.max_tokens,
        proposals=[] if lookup else [list(p) for p in recorder.proposals],
    )
    trace = Trace(
        plan_sha256="0" * 64,
        strategy=kind,
        draft_max=RECORDED,
        context=wide.context,
        recurrent=case.recurrent,
        requests=[request],
    )
    return parse_trace(trace_bytes(trace), "t.json")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any request that runs to its end, under any setting up to the recorded K."""
    k = draw(st.integers(1, RECORDED))
    token = st.integers(0, VOCABULARY.size - 1)
    return Case(
        seed=draw(st.integers(0, 2**32)),
        prompt=tuple(draw(st.lists(token, min_size=1, max_size=8))),
        draft_max=k,
        snapshots=draw(st.integers(1, k)),
        draft_min=draw(st.integers(0, k)),
        recurrent=draw(st.booleans()),
        controller=draw(st.sampled_from(sweeps.CONTROLLERS)),
        sampling=draw(st.sampled_from(sweeps.SAMPLINGS)),
        stop=draw(st.sampled_from(sweeps.STOPS)),
        max_tokens=draw(st.integers(1, 40)),
        left=draw(st.integers(1, 50)),
        forced=tuple(draw(st.dictionaries(st.integers(0, 39), token, max_size=4)).items()),
    )


def same(simulated: Simulated, outcome: Outcome, target: WatchedTarget) -> None:
    def counted(counters: Counters) -> Counters:
        return replace(counters, phases_ns={})

    assert counted(simulated.counters) == counted(outcome.counters)
    assert simulated.tokens == len(outcome.ids)
    passes = []
    for number, rows in enumerate(target.rows):
        passes.append(rows - 1)
        if number in target.replayed:  # what was kept is evaluated again
            passes.append(target.kept[number] - 1)
    assert list(simulated.passes) == passes


FREE = Case(prompt=(0,), draft_max=2, snapshots=1, controller="cost", max_tokens=12)


@settings(max_examples=500)
@example(FREE, "anti-oracle")  # a model whose proposals cost nothing, text to take in or not
@example(replace(FREE, seed=4), "wrong-at-2")  # one that pays for what it takes in
@given(cases(), st.sampled_from([*KINDS, "prompt-lookup", "ngram-context"]))
def test_a_simulated_run_is_the_real_one(case: Case, kind: str) -> None:
    """All counters, the passes with their rows, and the replays."""
    trace = record(case, kind)
    plan = case.settings
    outcome, target = run(case, proposer_of(kind, case, case.draft_max), plan)
    setting = Setting(
        kind, case.draft_max, case.controller, snapshots=case.snapshots, draft_min=case.draft_min
    )
    same(simulate(trace, trace.requests[0], setting, plan.costs), outcome, target)


def test_off_is_one_pass_a_token() -> None:
    case = Case(max_tokens=12)
    trace = record(case, "oracle")
    found = simulate(trace, trace.requests[0], Setting("off", 1))
    outcome, target = run(case, NoProposer(), replace(case.settings, draft_max=0))
    assert found.passes == (0,) * outcome.counters.rounds
    assert found.tokens == len(outcome.ids)
    assert target.rows == [1] * len(found.passes)


def test_the_cost_of_a_run_is_its_passes_and_its_drafts() -> None:
    """An oracle of width 3: rounds of 4 tokens, and what is left at the end."""
    case = Case(max_tokens=10, left=90, seed=1)
    trace = record(case, "oracle")
    found = simulate(trace, trace.requests[0], Setting("oracle", 3))
    assert trace.requests[0].finish == "length"
    assert (found.passes, found.calls, found.steps) == ((3, 3, 1), 3, 7)
    costs = COSTS[1]
    drafts = 3 * costs.call + 7 * costs.step
    assert found.cost(costs) == drafts + 2 * costs.rows[3] + costs.rows[1]
    turning = replace(costs, rebuild=90_000)
    assert found.cost(turning) == found.cost(costs) + 90_000  # once, from width 3 to 1
    # The prompt but its anchor, then the last proposed token of each round before.
    assert found.intake == len(trace.requests[0].prompt_ids) - 1 + 2
    reading = replace(costs, prefill=5)
    assert found.cost(reading) == found.cost(costs) + 5 * found.intake
    falling = replace(turning, refill=7)
    assert found.cost(falling) == found.cost(turning) + 14


def test_a_replay_costs_a_pass() -> None:
    case = Case(
        draft_max=5, snapshots=2, recurrent=True, max_tokens=12, left=90, seed=1, proposer=""
    )
    trace = record(case, "anti-oracle")
    found = simulate(trace, trace.requests[0], Setting("anti-oracle", 5, snapshots=2))
    assert (found.counters.replays, found.counters.clamped_width) == (1, 2)
    assert found.passes[:3] == (5, 0, 2)


@pytest.mark.parametrize(
    ("setting", "says"),
    [(Setting("oracle", 10), "above 9"), (Setting("random", 3), "not recorded")],
)
def test_what_was_not_recorded_is_not_simulated(setting: Setting, says: str) -> None:
    trace = record(Case(), "oracle")
    with pytest.raises(ValueError, match=says):
        simulate(trace, trace.requests[0], setting)


def refused(data: bytes) -> Sequence[str]:
    with pytest.raises(PowerError) as caught:
        parse_trace(data, "t.json")
    return [d.code for d in caught.value.diagnostics]


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "power.trace.v2"},
        {"draft_max": 0},
        {"draft_max": 1},  # proposals are longer
        {"requests": []},
        {"extra": 1},
        {"context": 1.5},
        {"plan_sha256": "x"},
    ],
)
def test_what_is_no_trace_is_refused(change: dict[str, Any]) -> None:
    good = json.loads(trace_bytes(record(Case(), "oracle")))
    assert parse_trace(json.dumps(good).encode(), "t").requests
    assert set(refused(json.dumps(good | change).encode())) == {"P806"}
    assert refused(b"{") == ["P806"]
    assert refused(json.dumps({k: v for k, v in good.items() if k != "schema"}).encode()) == [
        "P806"
    ]
