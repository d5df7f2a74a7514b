"""Two arms held against each other: the same work, the same output, and how much faster. Pure.

A comparison is a function of its reports and of what was asked of it, so that it
can be derived again. What is not the same work is a missed gate, never a figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from pydantic import Field

from power.diagnostics import Diagnostic, fail
from power.evidence.parts import Count, Decimal, Hex, Name, Part
from power.evidence.preflight import Gate
from power.evidence.report import Report
from power.evidence.samples import Sample
from power.evidence.statistics import bootstrap, decimal, median

_NEXT = {
    "identity": "measure both arms with the same model, settings, engine, host and prompts",
    "outputs": "`power explain P811` and docs/explanation/exactness.md say why outputs fork; "
    "`--allow-divergence` compares speed all the same",
    "host": "measure again on a quiet host, or take it as it is with `--allow-busy-host`",
    "median_speedup": "the candidate is not worth it here: keep the base",
    "interval": "measure more prompts, or keep the base",
    "every_sample": "look at the slowest samples in the report",
    "median_rate": "the candidate is too slow here",
    "every_rate": "look at the slowest samples in the report",
}


class Asked(Part):
    """The gates. A ratio is of the candidate's rate over the base's; a rate, tokens a second.

    min_speedup: for the median prompt. min_lower: for the lower end of the interval.
    min_sample_speedup: for every sample, over the base's median of its prompt.
    """

    min_speedup: Decimal | None = "1"
    min_lower: Decimal | None = None
    min_sample_speedup: Decimal | None = None
    min_rate: Decimal | None = None
    min_sample_rate: Decimal | None = None
    allow_divergence: bool = False
    allow_busy_host: bool = False


class Side(Part):
    """One arm of one report."""

    report_sha256: Hex
    arm: Name
    plan: str
    strategy: str


class Difference(Part):
    """A fact that the two sides do not share; None: one has no such fact."""

    path: str
    base: str | None = None
    candidate: str | None = None


class Ratio(Part):
    """Candidate over base, a ratio a prompt: the median, the geometric mean, its 95% interval.

    The interval is absent for a single prompt: there is nothing to resample.
    """

    median: Decimal
    mean: Decimal
    low: Decimal | None = None
    high: Decimal | None = None


class PromptPair(Part):
    """One prompt in both arms: medians of its samples, in tokens a second."""

    prompt: str
    same_output: bool
    base_tok_s: Decimal | None = None
    candidate_tok_s: Decimal | None = None
    ratio: Decimal | None = None


class Comparison(Part):
    """The whole comparison. decode: steady rates; request: tokens over the whole request."""

    schema_: Literal["power.comparison.v1"] = Field("power.comparison.v1", alias="schema")
    base: Side
    candidate: Side
    asked: Asked
    identity: list[Difference]
    strategy: list[Difference]
    same_outputs: Count
    prompts: list[PromptPair]
    decode: Ratio | None = None
    request: Ratio | None = None
    slowest_sample: Decimal | None = None
    gates: list[Gate]
    passed: bool

    @property
    def missed(self) -> list[Gate]:
        """The gates that were not met."""
        return [gate for gate in self.gates if not gate.met]

    def findings(self) -> list[Diagnostic]:
        """One P830 for each gate that was missed."""
        return [
            gate.finding("P830", f"the gate `{gate.name}` was missed", _NEXT[gate.name])
            for gate in self.missed
        ]


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm of a report, with the samples of each prompt."""

    report: Report
    sha256: str
    name: str

    @property
    def side(self) -> Side:
        """How a comparison names it."""
        arm = self.report.arm(self.name)
        return Side(report_sha256=self.sha256, arm=self.name, plan=arm.plan, strategy=arm.strategy)

    def samples(self) -> dict[str, list[Sample]]:
        """Its samples by prompt, in the report's order of prompts."""
        groups: dict[str, list[Sample]] = {p.prompt: [] for p in self.report.by_prompt}
        for sample in self.report.samples:
            if sample.arm == self.name:
                groups[sample.prompt].append(sample)
        return groups


def pick(report: Report, sha256: str, name: str | None, *, first: bool) -> Arm:
    """The arm `name` of a report; without a name its first or its last one.

    Raises PowerError P831 for a name that it does not have.
    """
    names = [arm.name for arm in report.arms]
    chosen = name or names[0 if first else -1]
    if chosen not in names:
        fail(
            "P831",
            f"the report has no arm `{chosen}`",
            expected=", ".join(names),
            found=chosen,
            hint="name one of its arms",
        )
    return Arm(report, sha256, chosen)


def compare(base: Arm, candidate: Arm, asked: Asked) -> Comparison:
    """Hold `candidate` against `base`."""
    identity = list(differences(_identity(base), _identity(candidate)))
    ours, theirs = candidate.samples(), base.samples()
    shared = [prompt for prompt in theirs if prompt in ours]
    pairs = [_pair(prompt, theirs[prompt], ours[prompt]) for prompt in shared]
    ratios = [ratio for p in shared if (ratio := _ratio(theirs[p], ours[p], _decode)) is not None]
    request = [ratio for p in shared if (ratio := _ratio(theirs[p], ours[p], _request)) is not None]
    slowest = min(
        (ratio for p in shared for ratio in _against_median(theirs[p], ours[p])), default=None
    )
    figures = _Figures(
        missing=[prompt for prompt in theirs if prompt not in ours],
        same=sum(pair.same_output for pair in pairs),
        pairs=pairs,
        decode=_summary(ratios),
        median=median(ratios) if ratios else None,
        slowest=slowest,
        rates=[rate for p in shared for s in ours[p] if (rate := s.decode_rate) is not None],
    )
    gates = list(_gates(asked, identity, figures, base.report, candidate))
    return Comparison(
        base=base.side,
        candidate=candidate.side,
        asked=asked,
        identity=identity,
        strategy=list(
            differences(
                base.report.arm(base.name).settings,
                candidate.report.arm(candidate.name).settings,
            )
        ),
        same_outputs=figures.same,
        prompts=pairs,
        decode=figures.decode,
        request=_summary(request),
        slowest_sample=None if slowest is None else decimal(slowest, 4),
        gates=gates,
        passed=all(gate.met for gate in gates),
    )


@dataclass(frozen=True, slots=True)
class _Figures:
    """What the gates look at. median and slowest are exact."""

    missing: Sequence[str]
    same: int
    pairs: Sequence[PromptPair]
    decode: Ratio | None
    median: Fraction | None
    slowest: Fraction | None
    rates: Sequence[Fraction]


def _identity(arm: Arm) -> dict[str, str]:
    """Everything that two arms must share, as text."""
    report, plan = arm.report, arm.report.arm(arm.name)
    engine, host = report.engine, report.host
    return {
        **plan.identity,
        **{f"engine.libraries.{lib.name}": lib.digest.sha256 for lib in engine.libraries},
        **{f"host.{k}": _text(v) for k, v in host.model_dump(mode="json").items()},
        "prompts": report.prompts.sha256,
        "bench.kind": report.design.kind,
        "bench.rounds": str(report.design.rounds),
        "bench.warmup": str(report.design.warmup),
        "bench.natural": str(report.design.natural).lower(),
    }


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def differences(base: Mapping[str, str], candidate: Mapping[str, str]) -> Iterator[Difference]:
    """The facts that are not the same in both."""
    for path in dict.fromkeys([*base, *candidate]):
        if base.get(path) != candidate.get(path):
            yield Difference(path=path, base=base.get(path), candidate=candidate.get(path))


def _decode(sample: Sample) -> Fraction | None:
    return sample.decode_rate


def _request(sample: Sample) -> Fraction | None:
    return Fraction(sample.tokens, sample.wall_us) if sample.wall_us and sample.tokens else None


Rate = Callable[[Sample], Fraction | None]


def _median(samples: Sequence[Sample], rate: Rate) -> Fraction | None:
    rates = [value for sample in samples if (value := rate(sample)) is not None]
    return median(rates) if rates else None


def _ratio(base: Sequence[Sample], candidate: Sequence[Sample], rate: Rate) -> Fraction | None:
    below, above = _median(base, rate), _median(candidate, rate)
    return None if below is None or above is None else above / below


def _against_median(base: Sequence[Sample], candidate: Sequence[Sample]) -> Iterator[Fraction]:
    """Each of the candidate's samples over the base's median of the same prompt."""
    below = _median(base, _decode)
    for sample in candidate:
        rate = sample.decode_rate
        if below is not None and rate is not None:
            yield rate / below


def _pair(prompt: str, base: Sequence[Sample], candidate: Sequence[Sample]) -> PromptPair:
    ratio = _ratio(base, candidate, _decode)
    return PromptPair(
        prompt=prompt,
        same_output=base[0].output_ids_sha256 == candidate[0].output_ids_sha256,
        base_tok_s=_decimal(_median(base, _decode), 3),
        candidate_tok_s=_decimal(_median(candidate, _decode), 3),
        ratio=_decimal(ratio, 4),
    )


def _decimal(value: Fraction | None, places: int) -> str | None:
    return None if value is None else decimal(value, places)


def _summary(ratios: Sequence[Fraction]) -> Ratio | None:
    if not ratios:
        return None
    found = bootstrap(ratios)
    alone = len(ratios) == 1
    return Ratio(
        median=decimal(median(ratios), 4),
        mean=found.mean,
        low=None if alone else found.low,
        high=None if alone else found.high,
    )


def _gates(
    asked: Asked,
    identity: Sequence[Difference],
    figures: _Figures,
    base: Report,
    candidate: Arm,
) -> Iterator[Gate]:
    paths = ", ".join(difference.path for difference in identity)
    yield Gate(
        name="identity",
        required="equal but for the strategy",
        found=shortened(paths) if paths else "equal",
        met=not identity,
    )
    if not asked.allow_divergence:
        total = len(figures.pairs) + len(figures.missing)
        yield Gate(
            name="outputs",
            required=f"{total} of {total} equal",
            found=f"{figures.same} of {total} equal",
            met=figures.same == total,
        )
    if not asked.allow_busy_host:
        busy = any(p.overridden for r in (base, candidate.report) for p in r.preflight)
        found = "measured on a host that was not" if busy else "quiet"
        yield Gate(name="host", required="quiet", found=found, met=not busy)
    low = figures.decode.low if figures.decode is not None else None
    rates = figures.rates
    own = candidate.report.of(candidate.name).decode_tok_s
    for name, least, exact in (
        ("median_speedup", asked.min_speedup, figures.median),
        ("interval", asked.min_lower, None if low is None else Fraction(low)),
        ("every_sample", asked.min_sample_speedup, figures.slowest),
        ("median_rate", asked.min_rate, None if own is None else Fraction(own.median)),
        ("every_rate", asked.min_sample_rate, min(rates, default=None)),
    ):
        if least is not None:
            yield _at_least(name, least, exact)


def _at_least(name: str, least: str, found: Fraction | None) -> Gate:
    return Gate(
        name=name,
        required=f"at least {least}",
        found="nothing to judge by" if found is None else decimal(found, 4),
        met=found is not None and found >= Fraction(least),
    )


def shortened(text: str, limit: int = 900) -> str:
    """`text`, cut where a gate has no room for it."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
