"""Measuring what a planner needs, on a plan's own engine; and the setting that it chose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from power.diagnostics import fail
from power.evidence.curve import cost_of
from power.evidence.planner import Judged, candidates, judge
from power.evidence.simulate import LOOKUPS
from power.evidence.statistics import decimal, median
from power.evidence.trace import Trace, Traced
from power.evidence.tuned import Compared, traced_costs
from power.manifest.merge import Effective
from power.manifest.model import Exactness, Graph, Speculation
from power.plan.capabilities import InstalledEngine
from power.plan.compile import compile_effective
from power.plan.model import Cost, Plan
from power.runner.batch import Chat, rendered_line
from power.runner.messages import Advice, CurveRead, Done
from power.runner.prompts import Prompt
from power.runner.runner import Runner
from power.runner.types import Request, RunRecord

Opener = Callable[[Plan], AbstractContextManager[tuple[Runner, Chat]]]
"""Verifies a plan's artifacts and loads them in a fresh worker."""

Progress = Callable[[int, int], None]

REPEATS = 15
WARMUP = 2
INTAKE = 32  # tokens that a draft model is made to take in before a proposal that is timed
_OFF, _OWN = Advice("none"), Advice("own")
_LEAST_TEXT = 8  # tokens behind which passes can be timed


@dataclass(frozen=True, slots=True)
class Tuning:
    """What is tuned. widest: the largest K. rows: row counts that may be used, None for all."""

    effective: Effective
    path: Path
    roots: Sequence[Path]
    engine: InstalledEngine
    prompts: Sequence[Prompt]
    widest: int
    rows: frozenset[int] | None = None

    def on(self, prompts: Sequence[Prompt]) -> Tuning:
        """The same with these prompts."""
        return replace(self, prompts=prompts)

    def plan(self, speculation: dict[str, Any], graph: dict[str, Any] | None = None) -> Plan:
        """The plan with this [speculation] and no claim of exactness."""
        settings = self.effective.settings
        shape = settings.graph.model_dump(exclude_unset=True) | {"batch": None, **(graph or {})}
        found = settings.model_copy(
            update={
                "speculation": Speculation(**speculation),
                "graph": Graph(**shape),
                "exactness": Exactness(),
            }
        )
        compiled = compile_effective(
            replace(self.effective, settings=found),
            self.path,
            roots=self.roots,
            engine=self.engine,
        )
        return compiled.plan


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trace with its costs, the times they come from, and a run that names engine and host."""

    plan: Plan
    trace: Trace
    cost: Cost
    times: CurveRead
    run: RunRecord


def widest_plan(tuning: Tuning) -> Plan:
    """The plan to record: the strategy that `auto` would take, else lookup, at the largest K."""
    natural = {"shape": "natural", "rows": None}
    asked = tuning.effective.requested
    mode = asked if asked not in {"off", *LOOKUPS} else "auto"
    narrow = tuning.plan({"spec_mode": mode, "spec_draft_max": 1}, natural)
    strategy, k = narrow.speculation.strategy, tuning.widest
    if strategy == "off":
        strategy = "prompt-lookup"
    elif narrow.draft is not None and narrow.draft.contract.max_width is not None:
        k = min(k, narrow.draft.contract.max_width)
    return tuning.plan(
        {"spec_mode": strategy, "spec_draft_max": k, "spec_mtp_recurrent_snapshots": k}, natural
    )


def record(tuning: Tuning, plan: Plan, open_: Opener, progress: Progress) -> Recorded:
    """Run every prompt target-only, with what would have been proposed, and time passes.

    Raises PowerError P809 where no text is long enough to time a pass behind it, and
    what the runner raises; KeyboardInterrupt when cancelled.
    """
    spec = plan.speculation
    k, total = spec.spec_draft_max or 1, len(tuning.prompts) + 2
    advice = Advice("none" if spec.strategy in LOOKUPS else "recording")
    requests: list[Traced] = []
    with open_(plan) as (runner, chat):
        for number, prompt in enumerate(tuning.prompts):
            progress(number, total)
            requests.append(_traced(runner, prompt, chat, plan, advice))
        progress(total - 2, total)
        ids = max(([*r.prompt_ids, *r.ids] for r in requests), key=len)
        times = _times(runner, plan, ids, k, lookup=spec.strategy in LOOKUPS)
        progress(total - 1, total)
        run = runner.generate(
            replace(_request(tuning.prompts[0], chat), control=True, max_tokens=1)
        )
        progress(total, total)
    cost = cost_of(times.passes, times.drafts, times.intakes)
    if tuning.rows is not None:
        listed = {rows: spent for rows, spent in cost.rows.items() if int(rows) in tuning.rows}
        cost = cost.model_copy(update={"rows": {"1": "1"} | listed})
    trace = Trace(
        plan_sha256=plan.lock.plan_sha256,
        strategy=spec.strategy,
        draft_max=k,
        context=plan.graph.context,
        recurrent=spec.rollback == "snapshots",
        requests=requests,
    )
    return Recorded(plan, traced_costs(trace, cost), cost, times, run)


def _request(prompt: Prompt, chat: Chat) -> Request:
    return prompt.request(rendered_line(prompt, chat), control=False)


def _traced(runner: Runner, prompt: Prompt, chat: Chat, plan: Plan, advice: Advice) -> Traced:
    tried = runner.trial(_request(prompt, chat), advice, rows=0)
    done = _finished(tried.done)
    return Traced(
        id=prompt.id,
        prompt_ids=list(done.prompt_ids),
        ids=list(done.ids),
        finish=done.finish.value,  # type: ignore[arg-type]
        max_tokens=prompt.max_tokens or plan.sampling.max_tokens,
        proposals=[list(proposal) for proposal in tried.proposals],
    )


def _finished(done: Done) -> Done:
    if done.finish.value == "cancelled":
        raise KeyboardInterrupt
    return done


def _times(runner: Runner, plan: Plan, ids: Sequence[int], k: int, *, lookup: bool) -> CurveRead:
    """Passes of 1 to K + 1 rows behind a third of the text and behind most of it."""
    intake = 0 if lookup else INTAKE
    reach = max(k, intake) + 2
    last = min(len(ids), plan.graph.context) - reach
    if last < _LEAST_TEXT:
        fail(
            "P809",
            "no text is long enough to time passes behind it",
            expected=f"at least {reach + _LEAST_TEXT} tokens of prompt and output",
            found=f"{len(ids)} tokens",
            hint="give longer prompts, or raise `max_tokens`",
        )
    return runner.curve(
        ids,
        sorted({max(_LEAST_TEXT, last // 3), last}),
        range(1, k + 2),
        widths=() if lookup else sorted({1, k}),
        intake=intake,
        repeats=REPEATS,
        warmup=WARMUP,
    )


def survey(recorded: Recorded, *, fixed: bool) -> Iterator[Judged | None]:
    """Every candidate judged, one after another; None for one that needs an unknown pass."""
    trace, cost = recorded.trace, recorded.cost
    return (judge(trace, cost, one) for one in candidates(trace, cost, fixed=fixed))


def compare(  # noqa: PLR0913 - what is compared
    tuning: Tuning,
    plan: Plan,
    chosen: Judged,
    open_: Opener,
    *,
    samples: int,
    progress: Progress,
) -> list[Compared]:
    """The chosen plan against target-only at the natural shape, arms alternated, by prompt.

    Rates count the tokens behind the first commit, in the time after it. The two runs of a
    sample follow each other, so its ratio does not know of a host that slows down; of a
    prompt it is the median over `samples`. A prompt without such tokens is left out.
    """
    found: list[Compared] = []
    total = len(tuning.prompts)
    with open_(plan) as (runner, chat):
        runner.trial(_request(tuning.prompts[0], chat), _OFF, rows=0)  # to warm up
        for number, prompt in enumerate(tuning.prompts):
            progress(number, total)
            request = _request(prompt, chat)
            pairs = [_pair(runner, request, own_first=n % 2 == 1) for n in range(samples)]
            ratios = [ratio for ratio, _ in pairs if ratio is not None]
            if ratios:
                found.append(
                    Compared(
                        prompt=prompt.id,
                        predicted=decimal(chosen.speed_ups[number], 4),
                        measured=decimal(median(ratios), 4),
                        equal=len({ids for _, both in pairs for ids in both}) == 1,
                    )
                )
        progress(total, total)
    return found


def _pair(
    runner: Runner, request: Request, *, own_first: bool
) -> tuple[Fraction | None, tuple[tuple[int, ...], ...]]:
    """The plan's rate over that of target-only, None where one has none; the ids of both."""
    done: dict[str, Done] = {}
    for arm in (_OWN, _OFF) if own_first else (_OFF, _OWN):
        rows = 0 if arm is _OFF else None
        done[arm.kind] = _finished(runner.trial(request, arm, rows=rows).done)
    own, off = (_rate(done[arm.kind]) for arm in (_OWN, _OFF))
    ratio = None if own is None or off is None else own / off
    return ratio, tuple(one.ids for one in done.values())


def _rate(done: Done) -> Fraction | None:
    """Tokens a ns behind the first commit; None where there are none."""
    time = done.wall_ns - (done.first_token_ns or done.wall_ns)
    tokens = len(done.ids) - done.first_tokens
    return Fraction(tokens, time) if time > 0 and tokens > 0 else None
