"""What the parent and the worker say to each other.

The parent does not trust the worker (native code has parsed a file there): it
reads frames with `power.runner.frames`, which checks every field. The worker
trusts its parent. This module stays free of heavy imports for its sake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from power.backends.interface import EngineConfig, EngineIdentity, SamplingConfig
from power.diagnostics import Diagnostic
from power.speculation.outcome import Counters, Finish, Settings

_STRICT = {"extra": "forbid", "strict": True, "val_json_bytes": "base64"}

# --- parent to worker --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """Load an engine; the first frame.

    affinity: CPU numbers, or None to leave the mask alone. nice: added to the
    process's niceness. require: kinds of devices that have to be there. beat_s:
    seconds after which a busy worker shows a sign of life.
    """

    backend: str
    engine: EngineConfig
    settings: Settings
    affinity: tuple[int, ...] | None
    nice: int
    require: tuple[str, ...]
    beat_s: float
    type: Literal["load"] = "load"


@dataclass(frozen=True, slots=True)
class Run:
    """Run one request. `clock_ns` is CLOCK_MONOTONIC when the caller asked for it."""

    number: int
    text: str
    special: bool
    sampling: SamplingConfig
    control: bool
    max_tokens: int
    stop: tuple[str, ...]
    clock_ns: int
    plain: tuple[tuple[int, int], ...] = ()
    type: Literal["run"] = "run"


AdviceKind = Literal[
    "own", "none", "oracle", "anti-oracle", "wrong-at", "random", "empty", "recording"
]


@dataclass(frozen=True, slots=True)
class Advice:
    """Who proposes in a trial.

    own: the plan's proposer; none: nobody; recording: the plan's proposer, asked at
    every position, its proposals noted and not used; the others are
    `power.backends.told.TOLD`. ids: the control run's, for those that are told
    them. seed: for those that draw.
    """

    kind: AdviceKind = "own"
    ids: tuple[int, ...] = ()
    seed: int = 0

    @property
    def from_plan(self) -> bool:
        """Whether it is the plan's own proposer that is asked."""
        return self.kind in {"own", "recording"}


@dataclass(frozen=True, slots=True)
class Trial:
    """Run a request otherwise than the plan says, or look closer at it.

    rows: of every pass, 0 for the natural shape (one row without a proposal), None
    for the plan's. margins, rounds: whether `Tried` has them.
    """

    run: Run
    advice: Advice = Advice()
    rows: int | None = None
    margins: bool = False
    rounds: bool = False
    type: Literal["trial"] = "trial"


@dataclass(frozen=True, slots=True)
class PassShape:
    """A pass of `rows` rows, the first `real` of them text and the others `padding`."""

    rows: int
    real: int
    padding: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """Evaluate `ids[c:c + span]` for every c of `cells` in passes of each shape.

    The first c tokens are a prompt, in the plan's prefill chunks. Then pass
    follows pass until `span` positions are evaluated, each keeping its real rows;
    the last one has more padding where fewer are left. A recurrent target has to be
    able to drop the padding of a pass that is not the last.
    """

    number: int
    ids: tuple[int, ...]
    cells: tuple[int, ...]
    span: int
    shapes: tuple[PassShape, ...]
    type: Literal["rows"] = "rows"


@dataclass(frozen=True, slots=True)
class Curve:
    """Time passes of each row count of `counts` behind each number of `cells`, in turn and twice.

    Just before each of them, and each proposal, a pass of one row is timed to hold it against.

    widths: proposals of the plan's own proposer to time too, by their longest
    length. intake: of one that falls behind, time a proposal of one token with a
    backlog of that many too. Of each, `repeats` are timed after `warmup` that are not.
    """

    number: int
    ids: tuple[int, ...]
    cells: tuple[int, ...]
    counts: tuple[int, ...]
    widths: tuple[int, ...]
    repeats: int
    warmup: int
    intake: int = 0
    type: Literal["curve"] = "curve"


@dataclass(frozen=True, slots=True)
class Cancel:
    """End request `number` at its last committed round; too late is no error."""

    number: int
    type: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True)
class Close:
    """Free the engine and end the process."""

    type: Literal["close"] = "close"


# --- worker to parent --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of the model is loaded, 0.0 to 1.0."""

    __pydantic_config__: ClassVar = _STRICT
    fraction: float
    type: Literal["progress"] = "progress"


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine is loaded and takes requests. `notes`: host settings not granted."""

    __pydantic_config__: ClassVar = _STRICT
    identity: EngineIdentity
    notes: tuple[str, ...]
    type: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class Alive:
    """A sign of life between native calls.

    calls: how many native calls may pass until the next frame; each has the
    whole time limit for itself.
    """

    __pydantic_config__: ClassVar = _STRICT
    calls: int = 1
    type: Literal["alive"] = "alive"


@dataclass(frozen=True, slots=True)
class Prefilled:
    """How many of the prompt's tokens are in the target's memory, in chunks, and of how many."""

    __pydantic_config__: ClassVar = _STRICT
    tokens: int
    total: int
    type: Literal["prefilled"] = "prefilled"


@dataclass(frozen=True, slots=True)
class Emit:
    """Text that a round has committed, byte for byte, in whole characters."""

    __pydantic_config__: ClassVar = _STRICT
    text: bytes
    type: Literal["emit"] = "emit"


@dataclass(frozen=True, slots=True)
class Done:
    """A request ended. Times are nanoseconds of CLOCK_MONOTONIC.

    text: all of it; what was emitted, and for a cancelled request possibly more.
    proposer_width: `max_width` of the proposer that really ran. wall_ns and
    first_token_ns count from `Run.clock_ns`, to the last commit and the first,
    which had first_tokens tokens.
    """

    __pydantic_config__: ClassVar = _STRICT
    number: int
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    text: bytes
    finish: Finish
    proposer_width: int
    counters: Counters
    wall_ns: int
    first_token_ns: int | None
    first_tokens: int
    peak_rss_bytes: int
    type: Literal["done"] = "done"


@dataclass(frozen=True, slots=True)
class Round:
    """One committed round of a trial. width: what the controller allowed.

    draft_ns, verify_ns: inside `propose` and `evaluate`; wall_ns: from the commit
    before to this one's, the first one's from its first checkpoint.
    """

    __pydantic_config__: ClassVar = _STRICT
    width: int
    drafted: int
    accepted: int
    draft_ns: int
    verify_ns: int
    wall_ns: int


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial ended. margins: of every token, between the two highest logits, as decimals.

    proposals: what a recorded proposer said, one for each round in which there was
    room for a proposal, from the first on.
    """

    __pydantic_config__: ClassVar = _STRICT
    done: Done
    margins: tuple[str, ...]
    proposals: tuple[tuple[int, ...], ...]
    rounds: tuple[Round, ...]
    type: Literal["tried"] = "tried"


@dataclass(frozen=True, slots=True)
class RowBits:
    """One row of logits: SHA-256 of its bytes, its highest token, the margin to the next."""

    __pydantic_config__: ClassVar = _STRICT
    digest: str
    token: int
    margin: str


@dataclass(frozen=True, slots=True)
class Walk:
    """The rows of `Rows.span` positions behind `cells`, in passes of `Rows.shapes[shape]`."""

    __pydantic_config__: ClassVar = _STRICT
    cells: int
    shape: int
    rows: tuple[RowBits, ...]


@dataclass(frozen=True, slots=True)
class RowsRead:
    """The answer to `Rows`: every shape behind every number of cells."""

    __pydantic_config__: ClassVar = _STRICT
    number: int
    walks: tuple[Walk, ...]
    type: Literal["rows-read"] = "rows-read"


@dataclass(frozen=True, slots=True)
class Timed:
    """How long one thing took behind `cells`, by repeat.

    size: rows of a pass, or the longest length of a proposal. drafted: tokens that
    were proposed, the same in every repeat; 0 for a pass. ns: of a pass, right behind
    one of its own size. plain_ns: just before, of a pass of one row behind others like it.
    first_ns: of a pass, behind one of one row. back_ns: of a pass of one row, behind this one.
    """

    __pydantic_config__: ClassVar = _STRICT
    cells: int
    size: int
    drafted: int
    ns: tuple[int, ...]
    plain_ns: tuple[int, ...]
    first_ns: tuple[int, ...] = ()
    back_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CurveRead:
    """The answer to `Curve`: passes by row count, proposals by width, and those with a backlog."""

    __pydantic_config__: ClassVar = _STRICT
    number: int
    passes: tuple[Timed, ...]
    drafts: tuple[Timed, ...]
    intakes: tuple[Timed, ...] = ()
    type: Literal["curve-read"] = "curve-read"


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no result, and why. The worker ends after one of the gravest (exit 3 or 4)."""

    __pydantic_config__: ClassVar = _STRICT
    diagnostics: tuple[Diagnostic, ...]
    type: Literal["refused"] = "refused"


Experiment = Trial | Rows | Curve
ToWorker = Load | Run | Experiment | Cancel | Close
FromWorker = (
    Progress | Ready | Alive | Prefilled | Emit | Done | Tried | RowsRead | CurveRead | Refused
)
