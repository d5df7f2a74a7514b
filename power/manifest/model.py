"""What a manifest may say: its keys, ranges and defaults, as frozen strict models.

A section is the same class in a manifest, in a profile and after merging.
`model_fields_set` tells what a file wrote from what is a default; a default of
None depends on other values and is settled by `merge.Effective`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from power.manifest import text_rules
from power.manifest.text_rules import Expected

SCHEMA = 1
LARGEST_INTEGER = 2**53 - 1  # the largest that RFC 8785 can write exactly

DraftKind = Literal["draft-model", "mtp", "dflash", "dflash2", "dspark", "eagle3"]
Mode = Literal[
    "auto",
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

Name = Annotated[
    str,
    AfterValidator(text_rules.name),
    Expected(
        "lower-case letters, digits, `.`, `_` and `-`, at most 63, the first no mark",
        f"^{text_rules.NAME.pattern}$",
    ),
]
Sha256 = Annotated[
    str,
    AfterValidator(text_rules.sha256),
    Expected("64 lower-case hexadecimal digits", f"^{text_rules.HEX64.pattern}$"),
]
ArtifactPath = Annotated[
    str,
    AfterValidator(text_rules.relative_path),
    Expected("a relative path with `/` between parts", r"^(?!/)(?!.*(^|/)\.{1,2}(/|$))[^\\]+$"),
]
ProfileRef = Annotated[
    str,
    AfterValidator(text_rules.profile_reference),
    Expected("the name of a shipped profile, or a relative path that ends in `.toml`"),
]
Line = Annotated[
    str, AfterValidator(text_rules.one_line), Expected("one line of text, at most 500 characters")
]
Origin = Annotated[
    str,
    AfterValidator(text_rules.origin),
    Expected("where the file came from, without a password"),
]
Grammar = Annotated[
    str, AfterValidator(text_rules.grammar), Expected("a GBNF grammar of at most 64 KiB")
]
Feature = Annotated[
    str,
    AfterValidator(text_rules.feature),
    Expected("the name of a device or feature, such as `cuda`", f"^{text_rules.FEATURE.pattern}$"),
]
Decimal = Annotated[
    str,
    AfterValidator(text_rules.decimal),
    Expected("a decimal as text, such as `1.84`", f"^{text_rules.DECIMAL.pattern}$"),
]
RowCount = Annotated[
    str, AfterValidator(text_rules.row_count), Expected("a number of rows from 1 to 4096")
]
Size = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
Cpu = Annotated[int, Field(ge=0, le=4095)]


class Section(BaseModel):
    """A table that is read strictly: no unknown key, no coercion, no infinity, no change."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Shard(Section):
    """One file of a split GGUF."""

    path: ArtifactPath
    bytes: Size
    sha256: Sha256


Shards = Annotated[tuple[Shard, ...], Field(strict=False, min_length=2, max_length=999)]


class Artifact(Section):
    """A GGUF pinned by size and digest, and where it came from.

    Of a split GGUF, `shards` lists every file in order; `path`, `bytes` and
    `sha256` are those of the first.
    """

    path: ArtifactPath
    bytes: Size
    sha256: Sha256
    source: Origin | None = Field(None, description="provenance; never fetched")
    revision: Line | None = Field(
        None, description="of the source; an immutable commit where the source is a hub"
    )
    license: Line | None = None
    shards: Shards | None = None


class Target(Artifact):
    """The model whose output is authoritative."""


class Draft(Artifact):
    """The one draft artifact, bound to the target it was made for.

    Of kind `mtp` it is no model but a table: the tokens that the target's own
    prediction head is reduced to.
    """

    kind: DraftKind
    target_sha256: Sha256


class Cost(Section):
    """What a round costs, in passes of one row, as it was measured.

    The cost controller uses the row counts that `rows` lists, and no others.
    """

    draft_call: Decimal = Field("0", description="asking the proposer once; 0 for a lookup")
    draft_step: Decimal = Field("0", description="each token that it proposes")
    draft_prefill: Decimal | None = Field(
        None, description="each token that a draft model takes in before it can propose"
    )
    rebuild: Decimal = Field(
        "0", description="what a pass costs more behind one of another row count"
    )
    refill: Decimal = Field(
        "0", description="what it costs more for each row less than the pass before had"
    )
    rows: Annotated[dict[RowCount, Decimal], AfterValidator(text_rules.by_rows)] = Field(
        description="a pass, by its number of rows", min_length=1, max_length=65
    )


class Speculation(Section):
    """How to propose: strategy and widths. The `spec_*` names are the legacy ones."""

    spec_mode: Mode = Field(
        "auto", description="`auto`: the declared draft, else the native head, else off"
    )
    spec_draft_max: int = Field(7, ge=1, le=64, description="K: most tokens in a proposal")
    spec_draft_min: int = Field(
        0, ge=0, le=64, description="a round that could draft fewer is target-only"
    )
    spec_draft_p_min: float = Field(
        0.0, ge=0, le=1, description="stop drafting below this draft probability"
    )
    spec_mtp_recurrent_snapshots: int = Field(
        7, ge=1, le=64, description="S: rejected rows a recurrent target drops without replay"
    )
    spec_mtp_fr_vocab_size: int | None = Field(
        None, ge=1024, le=1_048_576, description="FR: rows the draft head projects; omit for all"
    )
    spec_mtp_adaptive: bool = Field(
        default=False, description='`controller = "adaptive"`, as older files say it'
    )
    controller: Literal["fixed", "adaptive", "cost"] | None = Field(
        None,
        description="who sets the width of a round: always K; min(K, S), widened or stopped once "
        "by what is accepted; or what pays, by `cost`. Omit for fixed",
    )
    cost: Cost | None = Field(None, description="for the cost controller")

    @property
    def width_controller(self) -> Literal["fixed", "adaptive", "cost"]:
        """Who sets the width, however it was written."""
        return self.controller or ("adaptive" if self.spec_mtp_adaptive else "fixed")


class Graph(Section):
    """Shapes and devices of the engine's graphs."""

    batch: int | None = Field(
        None, ge=1, le=4096, description="B: rows of a verification pass; max(K + 2, rows)"
    )
    shape: Literal["fixed", "natural"] = Field(
        "natural", description="fixed: every pass has `rows` rows; natural: anchor + proposal"
    )
    rows: int | None = Field(None, ge=1, le=4096, description="of the fixed shape; K + 1")
    context: int = Field(4096, ge=2, le=16_777_216, description="tokens")
    prefill_batch: int | None = Field(
        None, ge=1, le=65_536, description="tokens a prefill pass; min(512, context)"
    )
    micro_batch: int | None = Field(
        None,
        ge=1,
        le=65_536,
        description="most rows that the kernels see at once; omit for a whole pass",
    )
    flash_attention: Literal["on", "off"] = "on"
    repack: Literal["auto", "on", "off"] = Field(
        "auto", description="weights in layouts of the CPU's own; auto: where that is safe"
    )
    cuda_graphs: bool = True
    backend_sampling: bool = Field(
        default=False, description="greedy choice on the device instead of from copied logits"
    )
    gpu_layers: Annotated[int, Field(ge=0, le=10_000)] | Literal["all"] = "all"
    main_gpu: int = Field(0, ge=0, le=255)


class Host(Section):
    """What a run asks of its host."""

    threads: int | None = Field(
        None, ge=1, le=4096, description="omit for the physical cores that may be used"
    )
    cpu_affinity: (
        Annotated[
            tuple[Cpu, ...],
            AfterValidator(text_rules.distinct),
            Field(strict=False, min_length=1, max_length=4096),
        ]
        | None
    ) = None
    process_priority: Literal["low", "normal", "high"] = "normal"
    cuda_high_priority: bool = False
    require: Annotated[
        tuple[Feature, ...],
        AfterValidator(text_rules.distinct),
        Field(strict=False, max_length=32),
    ] = Field((), description="a host that lacks one of these refuses to run")


class Sampling(Section):
    """The target's sampler. A filter that is absent is not applied."""

    temperature: float = Field(0.0, ge=0, le=100, description="0: greedy")
    top_k: int | None = Field(None, ge=1, le=1_048_576)
    top_p: float | None = Field(None, gt=0, le=1)
    min_p: float | None = Field(None, ge=0, le=1)
    typical_p: float | None = Field(None, gt=0, le=1)
    repeat_penalty: float | None = Field(None, gt=0, le=10, description="1: none")
    repeat_last_n: int | None = Field(
        None, ge=0, le=65_536, description="tokens the penalty looks back at"
    )
    grammar: Grammar | None = None
    # 2^32 - 1 is the engine's word for "draw a seed yourself": not repeatable.
    seed: int = Field(0, ge=0, le=2**32 - 2)
    max_tokens: int | None = Field(
        None, ge=1, le=16_777_216, description="min(256, context - 1); a request may ask for less"
    )


class Exactness(Section):
    """The level that the plan claims (docs: exactness is three claims)."""

    level: Literal["rule", "shape", "serial"] = "rule"


class Bounds(Section):
    """Bounds that the receipt reports as met or not met."""

    min_acceptance: float | None = Field(None, ge=0, le=1, description="accepted / drafted")


class Preflight(Section):
    """How quiet a host must be before `power bench` measures on it; each has a default."""

    idle_ms: int | None = Field(
        None, ge=100, le=120_000, description="how long the host is watched; 3000"
    )
    cpu_percent: int | None = Field(
        None, ge=0, le=100, description="busiest half second, of all CPUs; 20"
    )
    gpu_percent: int | None = Field(
        None, ge=0, le=100, description="busiest half second of a GPU; 20"
    )
    busy_processes: int | None = Field(
        None, ge=0, le=65_536, description="others that use a tenth of a CPU; not asked"
    )
    free_memory_bytes: Size | None = Field(None, description="the size of the artifacts")
    governor: Feature | None = Field(
        None, description="of every CPU's frequency, such as `performance`; not asked"
    )


class Settings(Section):
    """The sections that a manifest and a profile share, all optional."""

    speculation: Speculation = Speculation()
    graph: Graph = Graph()
    host: Host = Host()
    sampling: Sampling = Sampling()
    exactness: Exactness = Exactness()
    bounds: Bounds = Bounds()
    preflight: Preflight = Preflight()


SECTIONS = tuple(Settings.model_fields)


class Head(Section):
    """How every file begins. The first keys of a file come first in its models too."""

    schema_: Annotated[int, Field(ge=SCHEMA, le=SCHEMA)] = Field(alias="schema")
    name: Name


class ManifestHead(Head):
    """What only a manifest has."""

    profile: ProfileRef | None = None
    target: Target
    draft: Draft | None = None


class Manifest(Settings, ManifestHead):
    """One manifest: the artifacts, a profile, and settings of its own."""
