"""A run simulated on a trace is the run of the real engine, round by round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from power.backends.interface import SamplingConfig
from power.backends.told import Recorder
from power.evidence.simulate import LOOKUPS, Setting, simulate
from power.evidence.trace import Trace, Traced
from power.speculation.controller import make_controller
from power.speculation.outcome import ControllerKind, Costs, Settings
from power.speculation.scheduler import generate

PROMPT = [1, *range(10, 26), *range(10, 26)]
RECORDED = 7
COSTS = Costs(
    tuple(1_000_000 + 150_000 * k for k in range(RECORDED + 1)), step=20_000, prefill=10_000
)
CONTEXT = 512


def plan_of(k: int, controller: ControllerKind, *, free: bool) -> Settings:
    costs = replace(COSTS, rows=COSTS.rows[: k + 1], step=0 if free else COSTS.step)
    return Settings(
        draft_max=k,
        draft_min=0,
        window=k,
        snapshots=k,
        context=CONTEXT,
        controller=controller,
        costs=costs,
    )


def run(engine: Any, plan: Settings, *, recording: bool = False) -> tuple[Any, Recorder]:
    session = engine.session(SamplingConfig(), control=False)
    recorder = Recorder(session.proposer)
    outcome = generate(
        prompt=PROMPT,
        target=session.target,
        proposer=recorder if recording else session.proposer,
        sampler=session.sampler,
        vocabulary=engine.vocabulary,
        controller=make_controller(plan, session.proposer),
        settings=plan,
        max_tokens=60,
        stop=(),
        emit=lambda _ids, _text: None,
        cancelled=lambda: False,
        clock=iter(range(1 << 62)).__next__,
    )
    assert outcome.error is None
    return outcome, recorder


@pytest.mark.parametrize("strategy", ["prompt-lookup", "draft-model"])
def test_rounds_come_out_as_in_the_engine(lab: Any, strategy: str) -> None:
    """One trace at K 7, then every narrower K with every controller, in the same engine."""
    engine = lab.open(strategy, draft_max=RECORDED)
    free = strategy in LOOKUPS
    recorded, recorder = run(engine, plan_of(RECORDED, "fixed", free=free), recording=True)
    request = Traced(
        id="one",
        prompt_ids=PROMPT,
        ids=list(recorded.ids),
        finish=recorded.finish.value,
        max_tokens=60,
        proposals=[] if free else [list(p) for p in recorder.proposals],
    )
    trace = Trace(
        plan_sha256="0" * 64,
        strategy=strategy,
        draft_max=RECORDED,
        context=CONTEXT,
        recurrent=False,
        requests=[request],
    )
    kinds: tuple[ControllerKind, ...] = ("fixed", "adaptive", "cost")
    drafted = 0
    for k in (1, 2, 3, 5, 7):
        for kind in kinds:
            plan = plan_of(k, kind, free=free)
            real, _ = run(engine, plan)
            assert real.ids == recorded.ids
            found = simulate(trace, request, Setting(strategy, k, kind), plan.costs)
            assert replace(found.counters, phases_ns={}) == replace(real.counters, phases_ns={})
            drafted += real.counters.drafted
    assert drafted > 0
