"""One sample of a bench: what its signed receipt says of speed, and nothing else. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from power.diagnostics import Diagnostic, PowerError
from power.evidence.journal import SampleLine
from power.evidence.parts import Count, Decimal, FileName, Hex, Name, Part
from power.evidence.statistics import decimal
from power.receipt.digests import sha256, token_ids_sha256
from power.receipt.predicate import IDS_SUBJECT, TEXT_SUBJECT, Statement, WidthRun

Round = Annotated[int, Field(ge=1)]


class Sample(Part):
    """Times are integer microseconds, rates tokens a second.

    receipt_id is the SHA-256 of the payload that was signed. `decode_tok_s` is the
    steady rate: the tokens that came after the first commit, in the time after it;
    absent when none came. peak_rss_bytes is the worker's so far.
    """

    round: Round
    arm: Name
    prompt: str
    receipt: FileName
    receipt_id: Hex
    output_ids_sha256: Hex
    finish: Literal["end", "stop", "length", "context"]
    prompt_tokens: Count
    tokens: Count
    first_tokens: Count
    rounds: Count
    drafted: Count
    accepted: Count
    drafted_by_position: list[Count]
    accepted_by_position: list[Count]
    replays: Count
    guard_round: Round | None = None
    widened_round: Round | None = None
    circuit_round: Round | None = None
    width_by_round: list[WidthRun]
    peak_rss_bytes: Count
    wall_us: Count
    first_token_us: Count
    phases_us: dict[str, Count]
    decode_tok_s: Decimal | None = None

    @model_validator(mode="after")
    def _the_first_commit_is_a_part(self) -> Self:
        if self.first_tokens > self.tokens or self.first_token_us > self.wall_us:
            message = "the first commit is more than the whole"
            raise ValueError(message)
        return self

    @property
    def decode_rate(self) -> Fraction | None:
        """`decode_tok_s` exactly."""
        time, tokens = self.wall_us - self.first_token_us, self.tokens - self.first_tokens
        return Fraction(tokens * 1_000_000, time) if time and tokens else None


def sample_of(line: SampleLine, statement: Statement) -> Sample:
    """The sample that `line` names, from the statement of its receipt."""
    execution, timing = statement.predicate.execution, statement.predicate.timing
    sample = Sample(
        round=line.round,
        arm=line.arm,
        prompt=line.prompt,
        receipt=line.receipt,
        receipt_id=line.receipt_id,
        output_ids_sha256=statement.digest(IDS_SUBJECT),
        finish=execution.finish,
        prompt_tokens=statement.predicate.request.prompt_tokens,
        tokens=execution.output_tokens,
        first_tokens=timing.first_tokens or 0,
        rounds=execution.rounds,
        drafted=execution.drafted,
        accepted=execution.accepted,
        drafted_by_position=execution.drafted_by_position,
        accepted_by_position=execution.accepted_by_position,
        replays=execution.replays,
        guard_round=execution.guard_round,
        widened_round=execution.widened_round,
        circuit_round=execution.circuit_round,
        width_by_round=execution.width_by_round,
        peak_rss_bytes=execution.peak_rss_bytes,
        wall_us=timing.wall_us,
        first_token_us=timing.first_token_us or timing.wall_us,
        phases_us=timing.phases_us,
    )
    rate = sample.decode_rate
    text = None if rate is None else decimal(rate)
    return sample.model_copy(update={"decode_tok_s": text})


_OF_SPEED = frozenset({"host.os", "host.memory_bytes"})
"""Facts on which no output depends: machines of one kind may differ in them."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A sample with all that it was taken from."""

    sample: Sample
    statement: Statement
    ids: tuple[int, ...]
    output: bytes

    @property
    def key(self) -> tuple[int, str, str]:
        """Which sample it is: round, arm, prompt."""
        return self.sample.round, self.sample.arm, self.sample.prompt


class Watch:
    """Refuses samples that do not belong into one bench, as they come.

    natural: a text may end before its limit. timed: samples are of a speed, so every
    one must have a steady rate, and those of one arm and prompt the same output.
    Raises PowerError: P810 a text ended early, P811 two samples of one arm and prompt
    differ, P812 engine or host are not the first sample's (what outputs depend on,
    where nothing is timed), P813 there is no steady decoding to time.
    """

    def __init__(self, *, natural: bool, timed: bool) -> None:
        self._natural = natural
        self._timed = timed
        self._first: Measured | None = None
        self._outputs: dict[tuple[str, str], Measured] = {}

    def see(self, new: Measured) -> None:
        """Take `new` in, or refuse it."""
        self._first = self._first or new
        known = self._outputs.setdefault((new.sample.arm, new.sample.prompt), new)
        found = [
            *self._early(new.sample),
            *(_divergence(known, new) if self._timed else ()),
            *_drift(self._first.statement, new, timed=self._timed),
        ]
        if found:
            raise PowerError(tuple(found))

    def _early(self, sample: Sample) -> Sequence[Diagnostic]:
        if not self._natural and sample.finish != "length":
            return [
                Diagnostic(
                    "P810",
                    f"the text of prompt `{sample.prompt}` ended early",
                    place=_place(sample),
                    expected="`length`: every sample does the same work",
                    found=f"`{sample.finish}` after {sample.tokens} tokens",
                    hint="give the prompt a smaller `max_tokens`, or measure with `--natural`",
                )
            ]
        if self._timed and sample.decode_rate is None:
            return [
                Diagnostic(
                    "P813",
                    f"the text of prompt `{sample.prompt}` is too short to time",
                    place=_place(sample),
                    expected="tokens after the first commit",
                    found=f"{sample.tokens} tokens, {sample.first_tokens} of them at once",
                    hint="give the prompt a larger `max_tokens`, or leave it out",
                )
            ]
        return []


def _place(sample: Sample) -> str:
    return f"arm `{sample.arm}`, round {sample.round}"


def _divergence(known: Measured, new: Measured) -> Sequence[Diagnostic]:
    if known.sample.output_ids_sha256 == new.sample.output_ids_sha256:
        return []
    at = fork(known.ids, new.ids)
    return [
        Diagnostic(
            "P811",
            f"two samples of prompt `{new.sample.prompt}` differ, from token {at} on",
            place=f"arm `{new.sample.arm}`, rounds {known.sample.round} and {new.sample.round}",
            expected=known.sample.output_ids_sha256,
            found=new.sample.output_ids_sha256,
            hint="a plan that does not repeat its output has no speed to compare: "
            "fix the seed, or look for what changed between the two",
        )
    ]


def fork(one: Sequence[int], other: Sequence[int]) -> int:
    """The first place, from 0, at which two outputs differ."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _drift(first: Statement, new: Measured, *, timed: bool) -> Sequence[Diagnostic]:
    """What changed under the bench; `threads` are the plan's and may differ by arm."""
    before, after = (
        {name: fact for name, fact in facts(one).items() if timed or name not in _OF_SPEED}
        for one in (first, new.statement)
    )
    return [
        Diagnostic(
            "P812",
            f"`{name}` is not what it was when the bench began",
            place=_place(new.sample),
            expected=before.get(name, "absent"),
            found=after.get(name, "absent"),
            hint="measure again on one host with one engine",
        )
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def facts(statement: Statement) -> Mapping[str, str]:
    """Engine and host of a run by name, as text."""
    engine, host = statement.predicate.engine, statement.predicate.host
    found = {
        "engine.package": engine.package,
        "engine.version": engine.version,
        "engine.llama_cpp": engine.llama_cpp,
    }
    found |= {f"engine.libraries.{lib.name}": lib.digest.sha256 for lib in engine.libraries}
    of_host = host.model_dump(mode="json", exclude={"threads"})
    return found | {
        f"host.{name}": ", ".join(value) if isinstance(value, list) else str(value)
        for name, value in of_host.items()
    }


def fits(line: SampleLine, statement: Statement) -> bool:
    """Whether the journal's tokens and text are the ones that were signed."""
    return token_ids_sha256(line.ids) == statement.digest(IDS_SUBJECT) and sha256(
        line.output
    ) == statement.digest(TEXT_SUBJECT)
