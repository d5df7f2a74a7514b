"""One tuning from start to end: record, simulate, choose, measure what was chosen, and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from power.diagnostics import counted
from power.evidence.planner import Judged, choose, ranked
from power.evidence.preflight import Preflight
from power.evidence.simulate import LOOKUPS
from power.evidence.statistics import geometric_mean
from power.evidence.trace import trace_bytes
from power.evidence.tuned import (
    Compared,
    TimedPart,
    TunedEngine,
    TunedHost,
    TuneReport,
    chosen_settings,
    costs_part,
    fixes_shape,
    profile_text,
    report_bytes,
)
from power.evidence.tuning import Opener, Progress, Recorded, Tuning, compare, record, survey
from power.plan.model import Plan
from power.receipt.digests import sha256
from power.runner.messages import Timed

_REPORTED = 20  # settings, the best first; the trace has all

Watched = Callable[[str], AbstractContextManager[Progress | None]]
"""Shows progress under a name."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a tuning came to. chosen: None is `off`. plan: the tuned one."""

    tuning: Tuning
    recorded: Recorded
    judged: Sequence[Judged]
    chosen: Judged | None
    plan: Plan
    compared: Sequence[Compared]
    quiet: Preflight
    prompts_sha256: str

    @property
    def without_draft(self) -> Judged | None:
        """A setting predicted to be faster that the manifest's draft stands in the way of."""
        best = choose(self.judged)
        return None if best is self.chosen else best

    @property
    def predicted(self) -> str:
        """The geometric mean of the predicted speed-ups."""
        return _mean([one.predicted for one in self.compared])

    @property
    def measured(self) -> str:
        """The geometric mean of the measured ones."""
        return _mean([one.measured for one in self.compared])


def _mean(ratios: Sequence[str]) -> str:
    return geometric_mean([Fraction(ratio) for ratio in ratios]) if ratios else "1"


def tune(  # noqa: PLR0913 - what a tuning is made of
    tuning: Tuning,
    plan: Plan,
    open_: Opener,
    watched: Watched,
    *,
    samples: int,
    quiet: Preflight,
    prompts_sha256: str,
) -> Tuned:
    """Tune; `plan` is what is recorded (`widest_plan`). Raises as `record`."""
    with watched("recording") as progress:
        recorded = record(tuning, plan, open_, progress or _silent)
    fixed = fixes_shape(tuning.effective)
    judged: list[Judged] = []
    with watched("simulating"):
        judged = ranked([one for one in survey(recorded, fixed=fixed) if one is not None])
    chosen = choose(judged, None if plan.draft is None else plan.speculation.strategy)
    rows = None if chosen is None else chosen.candidate.rows
    shape = {"shape": "natural", "rows": None} if rows is None else {"shape": "fixed", "rows": rows}
    best = tuning.plan(chosen_settings(chosen, recorded.cost), shape)
    compared: list[Compared] = []
    if chosen is not None:
        with watched("measuring") as progress:
            compared = compare(
                tuning, best, chosen, open_, samples=samples, progress=progress or _silent
            )
    return Tuned(tuning, recorded, judged, chosen, best, compared, quiet, prompts_sha256)


def _silent(_done: int, _total: int) -> None:
    """For a caller that wants no progress."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where a tuning goes: the profile, and its report and trace beside it."""

    profile: Path

    @property
    def report(self) -> Path:
        """What the profile's evidence names."""
        return self.profile.with_name(f"{self.profile.stem}.tune.json")

    @property
    def trace(self) -> Path:
        """What `power simulate` reads."""
        return self.profile.with_name(f"{self.profile.stem}.trace.json")

    def contents(self, tuned: Tuned) -> dict[Path, bytes]:
        """Every file's bytes, the profile last: it vouches for the report."""
        trace = trace_bytes(tuned.recorded.trace)
        report = report_bytes(_report(tuned, sha256(trace)))
        profile = profile_text(
            tuned.tuning.effective,
            name=self.profile.stem.lower(),
            summary=_summary(tuned),
            speculation=chosen_settings(tuned.chosen, tuned.recorded.cost),
            rows=None if tuned.chosen is None else tuned.chosen.candidate.rows,
            evidence=_evidence(tuned, self.report.name, sha256(report)),
        )
        return {self.trace: trace, self.report: report, self.profile: profile.encode()}


def _summary(tuned: Tuned) -> str:
    if tuned.chosen is None:
        return "Nothing pays on the host that it was measured on: target-only"
    setting = tuned.chosen.candidate.setting
    return (
        f"{setting.strategy}, K {setting.draft_max}, {setting.controller} width: "
        f"{tuned.measured} of target-only speed where it was measured"
    )


def _evidence(tuned: Tuned, report: str, digest: str) -> dict[str, Any]:
    engine, host = tuned.recorded.run.engine, tuned.recorded.run.host
    threads = counted(host.threads, "thread")
    found: dict[str, Any] = {
        "by": "measured",
        "what": f"Costs of passes, acceptance on {len(tuned.tuning.prompts)} "
        "prompts, and the choice against target-only",
        "where": f"{host.cpu}, {threads}, {engine.package} {engine.version}",
        "artifact": tuned.plan.target.path,
        "artifact_sha256": tuned.plan.target.sha256,
        "report": report,
        "report_sha256": digest,
    }
    if tuned.recorded.plan.draft is not None:
        found["draft_sha256"] = tuned.recorded.plan.draft.sha256
    if tuned.compared:
        found["figures"] = {
            "predicted_gain_ratio": float(tuned.predicted),
            "measured_gain_ratio": float(tuned.measured),
            "equal_outputs_count": sum(one.equal for one in tuned.compared),
            "prompts_count": len(tuned.compared),
        }
    return found


def _report(tuned: Tuned, trace_sha256: str) -> TuneReport:
    recorded, times = tuned.recorded, tuned.recorded.times
    engine = recorded.run.engine
    return TuneReport(
        recorded_plan_sha256=recorded.plan.lock.plan_sha256,
        tuned_plan_sha256=tuned.plan.lock.plan_sha256,
        prompts_sha256=tuned.prompts_sha256,
        trace_sha256=trace_sha256,
        engine=TunedEngine(
            package=engine.package,
            version=engine.version,
            llama_cpp=engine.llama_cpp,
            libraries=dict(engine.libraries),
            devices=list(engine.devices),
        ),
        host=TunedHost(**asdict(recorded.run.host)),
        quiet=tuned.quiet,
        passes=[_timed(one) for one in times.passes],
        drafts=[_timed(one) for one in times.drafts],
        intakes=[_timed(one) for one in times.intakes] or None,
        cost=costs_part(recorded.cost),
        lookups=sorted(LOOKUPS),
        settings=[one.prediction() for one in tuned.judged[:_REPORTED]],
        chosen=None if tuned.chosen is None else tuned.chosen.prediction(),
        predicted=tuned.predicted,
        measured=tuned.measured,
        by_prompt=list(tuned.compared),
    )


def _timed(timed: Timed) -> TimedPart:
    return TimedPart(
        cells=timed.cells,
        size=timed.size,
        drafted=timed.drafted,
        ns=list(timed.ns),
        plain_ns=list(timed.plain_ns),
        first_ns=list(timed.first_ns) or None,
        back_ns=list(timed.back_ns) or None,
    )
