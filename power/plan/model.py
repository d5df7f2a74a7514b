"""The resolved plan: everything a run depends on, and nothing about where it runs.

Field order is file order. Fields that the resolved strategy does not use are
None and left out of the file.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from power.manifest.text_rules import NAME, by_rows, decimal, row_count

PLAN_VERSION = 1
PLAN_REVISION = 0

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]  # what RFC 8785 writes exactly
Size = Annotated[int, Field(ge=1, le=2**53 - 1)]
Width = Annotated[int, Field(ge=1, le=64)]
Rows = Annotated[int, Field(ge=1, le=4096)]
Real = Annotated[float, AfterValidator(lambda value: value + 0.0)]  # -0.0, which RFC 8785 drops
Share = Annotated[Real, Field(ge=0, le=1)]
Decimal = Annotated[str, AfterValidator(lambda text: _same(text, decimal(text)))]
RowCount = Annotated[str, AfterValidator(row_count)]
# A name becomes part of a receipt's file name: nothing that could lead to another folder.
Name = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
# One line for people, without control characters or marks that reorder what follows.
Line = Annotated[str, Field(pattern=r"^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]{1,500}$")]
Reason = Annotated[str, Field(pattern=r"^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]{1,2000}$")]
Strategy = Literal[
    "off",
    "prompt-lookup",
    "ngram-context",
    "draft-model",
    "mtp",
    "dflash",
    "dflash2",
    "dspark",
    "eagle3",
]


def _same(value: Any, canonical: Any) -> Any:
    """`value`, which has to be written in its one form."""
    if value != canonical:
        raise ValueError("it is not in its one spelling")
    return value


def _ascending(values: dict[str, str]) -> dict[str, str]:
    _same(list(values), list(by_rows(values)))
    return values


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Source(_Frozen):
    """A manifest or profile by name, and the digest of what it says (not of its layout)."""

    name: Name
    sha256: Sha256


class Shard(_Frozen):
    """One file of a split GGUF, in order."""

    path: str
    bytes: Size
    sha256: Sha256


class Header(_Frozen):
    """Header facts that were checked at compile and are checked again at run."""

    architecture: str
    file_type: str
    layers: Count
    width: Count
    vocabulary: Count
    context: Count
    tokenizer_model: str
    pre_tokenizer: str
    vocabulary_sha256: Sha256
    chat_template_sha256: Sha256 | None = None

    @property
    def chats(self) -> bool:
        """Whether the file has a chat template."""
        return self.chat_template_sha256 is not None


class Contract(_Frozen):
    """What the draft contract established."""

    max_width: Count | None = None
    fr_vocabulary: Count | None = None
    notes: list[str] = Field(default_factory=list)


class Target(_Frozen):
    """The artifact whose output is authoritative."""

    path: str
    bytes: Size
    sha256: Sha256
    source: Line | None = None
    revision: Line | None = None
    license: Line | None = None
    shards: list[Shard] | None = None
    header: Header


class Draft(_Frozen):
    """The one draft artifact. `header` is None for a table (kind `mtp`), which is no model."""

    kind: Literal["draft-model", "mtp", "dflash", "dflash2", "dspark", "eagle3"]
    path: str
    bytes: Size
    sha256: Sha256
    target_sha256: Sha256
    source: Line | None = None
    revision: Line | None = None
    license: Line | None = None
    shards: list[Shard] | None = None
    header: Header | None = None
    contract: Contract


class Cost(_Frozen):
    """What a round costs, in passes of one row: what the cost controller weighs.

    `rows`: a pass, by its number of rows, ascending; no other row count is used.
    `rebuild`: what it costs more behind a pass of another row count (0 at a fixed shape).
    `draft_prefill`: None where no model takes text in of its own accord, or it was not measured.
    `refill`: for each row less than that one had (0 at a fixed shape).
    """

    draft_call: Decimal
    draft_step: Decimal
    draft_prefill: Decimal | None = None
    rebuild: Decimal
    refill: Decimal
    rows: Annotated[dict[RowCount, Decimal], AfterValidator(_ascending)]


class Speculation(_Frozen):
    """The strategy that will run, why, and its widths (None where it has no use for them)."""

    requested: Line
    strategy: Strategy
    reason: Reason
    spec_draft_max: Width | None = None  # K
    spec_draft_min: Annotated[int, Field(ge=0, le=64)] | None = None
    spec_draft_p_min: Share | None = None
    spec_mtp_recurrent_snapshots: Width | None = None  # S as asked
    effective_snapshots: Width | None = None  # min(S, K)
    rollback: Literal["trim", "snapshots"] | None = None  # pure KV cache | recurrent planes
    spec_mtp_fr_vocab_size: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    fr_rule: Literal["full", "prefix", "d2t"] | None = None
    fr_sha256: Sha256 | None = None
    spec_mtp_adaptive: bool | None = None
    controller: Literal["cost"] | None = None  # fixed and adaptive: `spec_mtp_adaptive`
    cost: Cost | None = None


class Graph(_Frozen):
    """Shapes and devices of the engine's graphs."""

    batch: Rows | None = None  # B; None where neither a proposal nor a fixed shape needs room
    shape: Literal["fixed", "natural"]
    rows: Rows | None = None
    context: Annotated[int, Field(ge=2, le=16_777_216)]
    prefill_batch: Annotated[int, Field(ge=1, le=65_536)]
    micro_batch: Annotated[int, Field(ge=1, le=65_536)] | None = None
    flash_attention: Literal["on", "off"]
    repack: Literal["on", "off"] | None = None  # None: where it is safe
    cuda_graphs: bool
    backend_sampling: bool
    gpu_layers: Annotated[int, Field(ge=0, le=10_000)] | Literal["all"]
    main_gpu: Annotated[int, Field(ge=0, le=255)]


class Host(_Frozen):
    """What the run asks of its host. `threads` None: the physical cores that may be used."""

    threads: Annotated[int, Field(ge=1, le=4096)] | None = None
    cpu_affinity: list[Annotated[int, Field(ge=0, le=4095)]] | None = None
    process_priority: Literal["low", "normal", "high"]
    cuda_high_priority: bool
    require: list[str]


class Sampling(_Frozen):
    """The target's sampler; a filter that is None is not applied."""

    temperature: Annotated[Real, Field(ge=0, le=100)]
    top_k: Size | None = None
    top_p: Share | None = None
    min_p: Share | None = None
    typical_p: Share | None = None
    repeat_penalty: Annotated[Real, Field(gt=0, le=10)] | None = None
    repeat_last_n: Annotated[int, Field(ge=0, le=65_536)] | None = None
    grammar: str | None = None
    seed: Annotated[int, Field(ge=0, le=2**32 - 2)]
    max_tokens: Size


class Exactness(_Frozen):
    """The level the plan claims."""

    level: Literal["rule", "shape", "serial"]


class Bounds(_Frozen):
    """Bounds that the receipt reports as met or not met."""

    min_acceptance: Share | None = None


class Preflight(_Frozen):
    """How quiet a host must be for `power bench`; None: the bench's default."""

    idle_ms: Annotated[int, Field(ge=100, le=120_000)] | None = None
    cpu_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    gpu_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    busy_processes: Annotated[int, Field(ge=0, le=65_536)] | None = None
    free_memory_bytes: Size | None = None
    governor: Line | None = None


class EnginePin(_Frozen):
    """The engine this plan was compiled for."""

    package: str
    version: str
    llama_cpp: str
    capabilities: list[str]  # strategies the plan relies on


class Lock(_Frozen):
    """SHA-256 over the RFC 8785 form of everything else."""

    plan_sha256: Sha256


class Plan(_Frozen):
    """One locked execution plan."""

    version: Count
    revision: Count
    name: Name
    manifest: Source
    profile: Source | None = None
    target: Target
    draft: Draft | None = None
    speculation: Speculation
    graph: Graph
    host: Host
    sampling: Sampling
    exactness: Exactness
    bounds: Bounds | None = None
    preflight: Preflight | None = None
    engine: EnginePin
    lock: Lock

    def body(self) -> dict[str, Any]:
        """Everything but the digest, absent fields left out, in file order."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"lock"})
