"""Which setting is predicted to be fastest: every one simulated on a trace, `off` among them. Pure.

Speed is compared by modelled cost, prompt by prompt against target-only at the
natural shape. Speed-up = cost target-only / cost; over prompts the geometric mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from power.diagnostics import fail
from power.evidence.parts import Count, Decimal, Part, Text
from power.evidence.simulate import LOOKUPS, Setting, Simulated, simulate
from power.evidence.statistics import decimal, geometric_mean
from power.evidence.trace import Trace, TracedCosts, Width
from power.plan.capabilities import TRAITS
from power.plan.model import Cost
from power.runner.settings import costs_of
from power.speculation.outcome import NEVER, ControllerKind

WORST = Fraction(97, 100)
"""Least speed-up on any prompt of a setting that may be chosen."""

GAIN = Fraction(102, 100)
"""Least mean speed-up; a setting that promises less is not worth its proposer."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting and its shape: `rows` of every pass, None for natural."""

    setting: Setting
    rows: int | None = None


class Prediction(Part):
    """What a setting would have come to. Speed-ups are over target-only, by modelled cost.

    rows: of every pass; absent for the natural shape. worst: of any prompt.
    """

    strategy: Text
    controller: ControllerKind
    draft_max: Width
    snapshots: Width
    shape: Literal["natural", "fixed"]
    rows: Annotated[int, Field(ge=1)] | None = None
    speed_up: Decimal
    worst: Decimal
    tokens_per_round: Decimal
    rounds: Count
    tokens: Count
    drafted: Count
    accepted: Count
    replays: Count
    speed_up_by_prompt: list[Decimal]


@dataclass(frozen=True, slots=True)
class Judged:
    """What a candidate came to. speed_ups: by prompt, in the trace's order."""

    candidate: Candidate
    speed_ups: tuple[Fraction, ...]
    rounds: int
    tokens: int
    drafted: int
    accepted: int
    replays: int

    @property
    def mean(self) -> str:
        """The geometric mean of the speed-ups, a decimal."""
        return geometric_mean(self.speed_ups)

    @property
    def worst(self) -> Fraction:
        """The least of them."""
        return min(self.speed_ups)

    @property
    def pays(self) -> bool:
        """Whether it may be chosen."""
        return self.worst >= WORST and Fraction(self.mean) >= GAIN

    def prediction(self) -> Prediction:
        """It for a report."""
        setting, rows = self.candidate.setting, self.candidate.rows
        return Prediction(
            strategy=setting.strategy,
            controller=setting.controller,
            draft_max=setting.draft_max,
            snapshots=setting.snapshots or setting.draft_max,
            shape="natural" if rows is None else "fixed",
            rows=rows,
            speed_up=self.mean,
            worst=decimal(self.worst, 4),
            tokens_per_round=decimal(Fraction(self.tokens, self.rounds)),
            rounds=self.rounds,
            tokens=self.tokens,
            drafted=self.drafted,
            accepted=self.accepted,
            replays=self.replays,
            speed_up_by_prompt=[decimal(ratio, 4) for ratio in self.speed_ups],
        )


def candidates(trace: Trace, cost: Cost, *, fixed: bool = False) -> Iterator[Candidate]:
    """Every setting that `trace` and `cost` allow: strategies, widths, controllers, S.

    fixed: the shape is fixed, at each row count that is known and holds K + 1 rows;
    else natural, at each K whose passes are known.
    """
    known = sorted(int(rows) for rows in cost.rows)
    for strategy in (*LOOKUPS, *(() if trace.strategy in LOOKUPS else (trace.strategy,))):
        for k in range(1, min(trace.draft_max, known[-1] - 1) + 1):
            shapes = [rows for rows in known if rows > k] if fixed else [None]
            for controller in ("fixed", "adaptive", "cost"):
                if controller == "adaptive" and not TRAITS[strategy].adaptive:
                    continue
                for s in range(1, k + 1) if trace.recurrent else (k,):
                    setting = Setting(strategy, k, controller, snapshots=s)
                    yield from (Candidate(setting, rows) for rows in shapes)


def judge(trace: Trace, cost: Cost, candidate: Candidate) -> Judged | None:
    """What `candidate` would have come to; None where it needs a pass that was not measured."""
    setting = candidate.setting
    costs = costs_of(cost, setting.draft_max, candidate.rows)
    if setting.strategy in LOOKUPS:
        # Whatever was recorded: a lookup drafts for nothing.
        costs = replace(costs, call=0, step=0, prefill=0)
    plain = costs_of(cost, 0, None).rows[0]
    runs: list[Simulated] = []
    ratios: list[Fraction] = []
    for request in trace.requests:
        run = simulate(trace, request, setting, costs)
        spent = run.cost(costs)
        if spent >= NEVER:
            return None
        runs.append(run)
        ratios.append(Fraction(plain * len(request.ids), spent))
    counters = [run.counters for run in runs]
    return Judged(
        candidate,
        tuple(ratios),
        rounds=sum(c.rounds for c in counters),
        tokens=sum(run.tokens for run in runs),
        drafted=sum(c.drafted for c in counters),
        accepted=sum(c.accepted for c in counters),
        replays=sum(c.replays for c in counters),
    )


def survey(trace: Trace, *, fixed: bool = False) -> list[Judged]:
    """Every candidate that the trace's own costs allow.

    Raises PowerError P807 without costs, P806 for a trace that no run can have given.
    """
    if trace.costs is None:
        fail(
            "P807",
            "the trace has no costs to compare by",
            hint="record it with `power tune`, which measures them",
        )
    cost = _checked(trace, trace.costs)
    found = (judge(trace, cost, one) for one in candidates(trace, cost, fixed=fixed))
    return [one for one in found if one is not None]


def _checked(trace: Trace, costs: TracedCosts) -> Cost:
    """Its costs, where its requests end as it says, by a strategy that there is."""
    try:
        cost = Cost(**costs.model_dump())
        fits = "1" in cost.rows and trace.strategy in TRAITS
        for request in trace.requests:
            simulate(trace, request, Setting("off", 1))
    except (ValueError, LookupError):
        fits = False
    if not fits:
        fail(
            "P806",
            "no run gives such a trace",
            expected="costs from one row on, a strategy, and requests that end as they say",
            hint="give a trace that `power tune` wrote",
        )
    return cost


def ranked(judged: Sequence[Judged]) -> list[Judged]:
    """The fastest first; of equals the narrower, with the simpler controller."""
    simple = {"fixed": 0, "adaptive": 1, "cost": 2}
    return sorted(
        judged,
        key=lambda one: (
            -Fraction(one.mean),
            one.candidate.setting.draft_max,
            simple[one.candidate.setting.controller],
        ),
    )


def choose(judged: Sequence[Judged], draft: str | None = None) -> Judged | None:
    """The fastest that pays; None is `off`.

    draft: the strategy of the draft that the manifest declares. A plan with a draft
    uses it, so no other strategy can be chosen.
    """
    open_to = (one for one in ranked(judged) if draft in {None, one.candidate.setting.strategy})
    return next((one for one in open_to if one.pays), None)
