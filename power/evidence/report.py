"""The report of a bench: a function of receipts, plans, prompts and journal.

Every figure in it follows from these files, so that whoever has them derives
the same report, and a verifier says which figure does not follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from power.evidence import identity
from power.evidence.journal import DesignLine
from power.evidence.parts import Count, Decimal, FileRef, Hex, Name, Part, Time
from power.evidence.preflight import Preflight
from power.evidence.samples import Measured, Sample
from power.evidence.statistics import decimal, median
from power.plan.model import Plan
from power.receipt.predicate import EnginePart, HostPart


class ArmPart(Part):
    """One arm: its plan, and what it shares and does not share with the others."""

    name: Name
    control: bool
    plan: str
    lock: FileRef
    plan_sha256: Hex
    strategy: str
    identity: dict[str, str]
    settings: dict[str, str]


class DesignPart(Part):
    """How many samples, in which order: arms are rotated by round."""

    kind: Literal["speed", "tasks"]
    rounds: Count
    warmup: Count
    natural: bool


class Rates(Part):
    """Tokens a second: the median over prompts of their medians; the extremes are of samples."""

    median: Decimal
    minimum: Decimal
    maximum: Decimal


class ArmFigures(Part):
    """What one arm came to. Times are microseconds; a ratio of sums is over all samples.

    request_tok_s: tokens over request time, prefill included. first_token_us and
    wall_us: as `Rates.median`.
    """

    arm: Name
    samples: Count
    decode_tok_s: Rates | None = None
    request_tok_s: Decimal
    first_token_us: Count
    wall_us: Count
    tokens: Count
    rounds: Count
    tokens_per_pass: Decimal
    drafted: Count
    accepted: Count
    acceptance: Decimal | None = None
    drafted_by_position: list[Count]
    accepted_by_position: list[Count]
    replays: Count
    replayed_samples: Count
    target_only_samples: Count
    peak_rss_bytes: Count
    phases_us: dict[str, Count]

    @model_validator(mode="after")
    def _what_was_accepted_was_drafted(self) -> Self:
        if len(self.accepted_by_position) > len(self.drafted_by_position):
            message = "more was accepted than drafted"
            raise ValueError(message)
        return self


class PromptFigures(Part):
    """What one arm came to on one prompt: medians over its rounds."""

    arm: Name
    prompt: str
    output_ids_sha256: Hex
    tokens: Count
    decode_tok_s: Decimal | None = None
    first_token_us: Count
    wall_us: Count


class Report(Part):
    """The whole report. Samples are in the order in which they ran."""

    schema_: Literal["power.bench-report.v1"] = Field("power.bench-report.v1", alias="schema")
    arms: Annotated[list[ArmPart], Field(min_length=1)]
    prompts: FileRef
    journal: FileRef
    design: DesignPart
    engine: EnginePart
    host: HostPart
    preflight: list[Preflight]
    started: Time
    finished: Time
    figures: list[ArmFigures]
    by_prompt: list[PromptFigures]
    samples: Annotated[list[Sample], Field(min_length=1)]

    @model_validator(mode="after")
    def _every_part_is_of_the_arms(self) -> Self:
        names = [arm.name for arm in self.arms]
        prompts = dict.fromkeys(figures.prompt for figures in self.by_prompt)
        pairs = list(product(prompts, names))
        fitting = (
            len(set(names)) == len(names),
            [figures.arm for figures in self.figures] == names,
            [(figures.prompt, figures.arm) for figures in self.by_prompt] == pairs,
            {(sample.prompt, sample.arm) for sample in self.samples} == set(pairs),
        )
        if not all(fitting):
            message = "figures, prompts and samples are not those of the arms"
            raise ValueError(message)
        return self

    def arm(self, name: str) -> ArmPart:
        """The arm of that name; LookupError without one."""
        return next(arm for arm in self.arms if arm.name == name)

    def of(self, arm: str) -> ArmFigures:
        """The figures of an arm."""
        return next(figures for figures in self.figures if figures.arm == arm)


@dataclass(frozen=True, slots=True)
class Sources:
    """What a report is a function of, read and verified.

    plans, locks: by arm, the plan and its file. prompts: ids, in the order of
    `prompts_file`. preflights: what the host was like at each start. measured: every
    sample, in the order of the journal.
    """

    design: DesignLine
    plans: Mapping[str, Plan]
    locks: Mapping[str, FileRef]
    prompts_file: FileRef
    journal_file: FileRef
    prompts: Sequence[str]
    preflights: Sequence[Preflight]
    measured: Sequence[Measured]

    @property
    def arms(self) -> list[ArmPart]:
        """What a report says of the arms, in their order."""
        return [
            arm_part(arm.name, self.plans[arm.name], self.locks[arm.name], control=arm.control)
            for arm in self.design.arms
        ]

    @property
    def engine(self) -> EnginePart:
        """The engine of every run."""
        return self.measured[0].statement.predicate.engine

    @property
    def host(self) -> HostPart:
        """The host of the first run."""
        return self.measured[0].statement.predicate.host

    @property
    def started(self) -> str:
        """When the first run began."""
        return min(one.statement.predicate.timing.started for one in self.measured)

    @property
    def finished(self) -> str:
        """When the last run ended."""
        return max(one.statement.predicate.timing.finished for one in self.measured)


def build_report(sources: Sources) -> Report:
    """The report of a finished bench."""
    design = sources.design
    samples = [one.sample for one in sources.measured]
    arms = [arm.name for arm in design.arms]
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.arm, sample.prompt), []).append(sample)
    return Report(
        arms=sources.arms,
        prompts=sources.prompts_file,
        journal=sources.journal_file,
        design=DesignPart(
            kind=design.kind, rounds=design.rounds, warmup=design.warmup, natural=design.natural
        ),
        engine=sources.engine,
        host=sources.host,
        preflight=list(sources.preflights),
        started=sources.started,
        finished=sources.finished,
        figures=[_figures(arm, [groups[arm, p] for p in sources.prompts]) for arm in arms],
        by_prompt=[_prompt(arm, p, groups[arm, p]) for p in sources.prompts for arm in arms],
        samples=samples,
    )


def arm_part(name: str, plan: Plan, lock: FileRef, *, control: bool) -> ArmPart:
    """What a report says of an arm."""
    return ArmPart(
        name=name,
        control=control,
        plan=plan.name,
        lock=lock,
        plan_sha256=plan.lock.plan_sha256,
        strategy="off" if control else plan.speculation.strategy,
        identity=identity.identity(plan),
        settings=identity.strategy(plan, control=control),
    )


def median_rate(samples: Sequence[Sample]) -> Fraction | None:
    """The median steady rate of these samples; None where none has one."""
    rates = [rate for s in samples if (rate := s.decode_rate) is not None]
    return median(rates) if rates else None


def _whole(values: Sequence[int]) -> int:
    """Their median, as a whole number."""
    return round(median([Fraction(value) for value in values]))


def _figures(arm: str, per_prompt: Sequence[Sequence[Sample]]) -> ArmFigures:
    """The figures of an arm from its samples, a sequence for each prompt."""
    mine = [sample for group in per_prompt for sample in group]
    tokens, rounds = sum(s.tokens for s in mine), sum(s.rounds for s in mine)
    drafted, accepted = sum(s.drafted for s in mine), sum(s.accepted for s in mine)
    wall = sum(s.wall_us for s in mine)
    return ArmFigures(
        arm=arm,
        samples=len(mine),
        decode_tok_s=_rates(mine, per_prompt),
        request_tok_s=decimal(Fraction(tokens * 1_000_000, wall)),
        first_token_us=_whole([_whole([s.first_token_us for s in group]) for group in per_prompt]),
        wall_us=_whole([_whole([s.wall_us for s in group]) for group in per_prompt]),
        tokens=tokens,
        rounds=rounds,
        tokens_per_pass=decimal(Fraction(tokens, rounds)),
        drafted=drafted,
        accepted=accepted,
        acceptance=decimal(Fraction(accepted, drafted), 4) if drafted else None,
        drafted_by_position=_positions(s.drafted_by_position for s in mine),
        accepted_by_position=_positions(s.accepted_by_position for s in mine),
        replays=sum(s.replays for s in mine),
        replayed_samples=sum(s.replays > 0 for s in mine),
        target_only_samples=sum(s.circuit_round is not None for s in mine),
        peak_rss_bytes=max(s.peak_rss_bytes for s in mine),
        phases_us={
            phase: sum(s.phases_us.get(phase, 0) for s in mine)
            for phase in sorted({phase for s in mine for phase in s.phases_us})
        },
    )


def _rates(mine: Sequence[Sample], per_prompt: Sequence[Sequence[Sample]]) -> Rates | None:
    every = [rate for s in mine if (rate := s.decode_rate) is not None]
    if not every:
        return None
    medians = [rate for group in per_prompt if (rate := median_rate(group)) is not None]
    return Rates(
        median=decimal(median(medians)),
        minimum=decimal(min(every)),
        maximum=decimal(max(every)),
    )


def _positions(counts: Iterator[list[int]]) -> list[int]:
    """Sums by position; positions that no sample reached are left out."""
    total: list[int] = []
    for sample in counts:
        total += [0] * (len(sample) - len(total))
        for position, count in enumerate(sample):
            total[position] += count
    while total and not total[-1]:
        total.pop()
    return total


def _prompt(arm: str, prompt: str, samples: Sequence[Sample]) -> PromptFigures:
    rate = median_rate(samples)
    return PromptFigures(
        arm=arm,
        prompt=prompt,
        output_ids_sha256=samples[0].output_ids_sha256,
        tokens=samples[0].tokens,
        decode_tok_s=None if rate is None else decimal(rate),
        first_token_us=_whole([s.first_token_us for s in samples]),
        wall_us=_whole([s.wall_us for s in samples]),
    )
