"""The predicate `urn:power:speculative-run:v1` as types (docs/predicates/speculative-run-v1.md).

Field order is the page's order. A field that is None is left out of the
statement. There are no floats: decimals are strings, times are RFC 3339 in UTC,
durations are integer microseconds.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from power.plan.model import Strategy
from power.receipt.strict_json import INTEGER_LIMIT

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:power:speculative-run:v1"
PLAN_SUBJECT = "plan"
IDS_SUBJECT = "output-token-ids"
TEXT_SUBJECT = "output-text"
SUBJECTS = (PLAN_SUBJECT, IDS_SUBJECT, TEXT_SUBJECT)

Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=INTEGER_LIMIT)]
Round = Annotated[int, Field(ge=1, le=INTEGER_LIMIT)]
Decimal = Annotated[str, Field(pattern=r"^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$", max_length=400)]
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$")]


Level = Literal["rule", "shape", "serial"]
Role = Literal["target", "draft"]


class Part(BaseModel):
    """A part of a statement: frozen, read strictly, nothing unknown."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)


class Digest(Part):
    """An in-toto digest set that holds exactly one algorithm."""

    sha256: Hex


class Subject(Part):
    """What the statement is about."""

    name: str
    digest: Digest


class PlanPart(Part):
    """The plan that ran; `plan_sha256` is the digest of its meaning, `digest` of its file."""

    name: str
    digest: Digest
    plan_sha256: Hex
    strategy: Strategy


class Sampling(Part):
    """The target's sampler as the plan has it; a filter left out was not applied."""

    temperature: Decimal
    top_k: int | None = None
    top_p: Decimal | None = None
    min_p: Decimal | None = None
    typical_p: Decimal | None = None
    repeat_penalty: Decimal | None = None
    repeat_last_n: int | None = None
    grammar_sha256: Hex | None = None


class RequestPart(Part):
    """What was asked; neither the prompt nor the stop sequences are in it."""

    prompt_sha256: Hex
    prompt_token_ids_sha256: Hex
    prompt_tokens: Count
    special_tokens: bool
    max_tokens: Count
    seed: Count
    stop_sha256: Hex | None = None
    control: bool
    sampling: Sampling
    sampling_sha256: Hex


class Annotations(Part):
    """What an artifact is to the plan; `shard` counts from 1."""

    role: Role
    bytes: Count
    shard: Round | None = None
    revision: str | None = None


class Artifact(Part):
    """An in-toto resource descriptor of one model file."""

    name: str
    uri: str | None = None
    digest: Digest
    annotations: Annotations


class Library(Part):
    """One native library that the worker had loaded."""

    name: str
    digest: Digest


class EnginePart(Part):
    """The engine that really ran."""

    package: str
    version: str
    llama_cpp: str
    libraries: list[Library]


class HostPart(Part):
    """The host, without its name or its user's."""

    os: str
    machine: str
    cpu: str
    physical_cores: Count
    threads: Count
    memory_bytes: Count
    devices: list[str]


class GraphPart(Part):
    """The shape of a verification pass."""

    shape: Literal["fixed", "natural"]
    batch: Count | None = None
    rows: Count | None = None


class Widths(Part):
    """The widths of the strategy that ran; absent when it was `off`."""

    draft_max: Count | None = None
    draft_min: Count | None = None
    draft_p_min: Decimal | None = None
    snapshots: Count | None = None
    effective_snapshots: Count | None = None
    rollback: Literal["trim", "snapshots"] | None = None
    fr_vocab_size: Count | None = None
    fr_rule: Literal["full", "prefix", "d2t"] | None = None
    fr_sha256: Hex | None = None
    adaptive: bool | None = None


class WidthRun(Part):
    """`rounds` rounds in a row at one `width`."""

    width: Count
    rounds: Round


class Execution(Part):
    """What happened. Rounds count from 1, positions of a proposal from 0."""

    strategy: Strategy
    graph: GraphPart
    widths: Widths | None = None
    finish: Literal["end", "stop", "length", "context"]
    output_tokens: Count
    fr_covered_tokens: Count | None = None
    rounds: Count
    target_only_rounds: Count
    drafted: Count
    accepted: Count
    drafted_by_position: list[Count]
    accepted_by_position: list[Count]
    replays: Count
    guard_round: Round | None = None
    clamped_width: Count | None = None
    widened_round: Round | None = None
    circuit_round: Round | None = None
    width_by_round: list[WidthRun]
    peak_rss_bytes: Count
    notes: list[str]


class ExactnessPart(Part):
    """The level the plan claims, and the certificate that shows it when there is one."""

    level: Level
    certificate_sha256: Hex | None = None


class AcceptanceBound(Part):
    """accepted / drafted >= required, compared as fractions; not met when nothing was drafted."""

    required: Decimal
    met: bool


class BoundsPart(Part):
    """The bounds of the plan; absent when it has none and for a control run."""

    min_acceptance: AcceptanceBound | None = None


class Timing(Part):
    """Where the time went, in microseconds; the phases add up to the wall time.

    The first commit held `first_tokens` tokens: what came after it took the rest.
    """

    started: Time
    finished: Time
    wall_us: Count
    first_token_us: Count | None = None
    first_tokens: Round | None = None
    phases_us: dict[str, Count]


class Predicate(Part):
    """One run of one plan."""

    plan: PlanPart
    request: RequestPart
    artifacts: list[Artifact] = Field(min_length=1)
    engine: EnginePart
    host: HostPart
    execution: Execution
    exactness: ExactnessPart
    bounds: BoundsPart | None = None
    timing: Timing
    claim_sha256: Hex


class Statement(Part):
    """in-toto Statement v1 with exactly the three subjects, in their order."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: list[Subject] = Field(min_length=3, max_length=3)
    predicateType: Literal["urn:power:speculative-run:v1"]  # noqa: N815 - in-toto's name
    predicate: Predicate

    def digest(self, subject: str) -> str:
        """SHA-256 of one of SUBJECTS."""
        return self.subject[SUBJECTS.index(subject)].digest.sha256

    def document(self) -> dict[str, Any]:
        """The statement as JSON values, absent fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
