"""What a request asked of the scheduler and what came of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Literal

ControllerKind = Literal["fixed", "adaptive", "cost"]
"""Who sets the width of each round: `power.speculation.controller`."""


class Finish(enum.StrEnum):
    """Why generation ended."""

    END = "end"  # an end-of-generation token; it is the last of `ids`, without text
    STOP = "stop"  # a stop sequence; cut from the text, its tokens stay in `ids`
    LENGTH = "length"  # max_tokens
    CONTEXT = "context"  # the context is full
    CANCELLED = "cancelled"
    FAILED = "failed"  # the engine failed; everything emitted before stays valid


class Phase(enum.StrEnum):
    """Where a request's wall time goes; the phases add up to the whole."""

    TOKENISE = "tokenise"
    PREFILL = "prefill"
    DRAFT = "draft"
    VERIFY = "verify"
    SAMPLE = "sample"
    COMMIT = "commit"
    REPLAY = "replay"
    DETOKENISE = "detokenise"
    OTHER = "other"


NEVER = 2**53 - 1
"""The cost of a pass whose row count is not to be used."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a round costs, in millionths of a target pass of one row.

    rows: `rows[k]` is a pass of the anchor and k proposed tokens in the plan's
        shape, for k from 0 to K; `rows[0]` is a target-only pass.
    call: asking the proposer once. step: each token that it proposes. Both are 0
        for a lookup. prefill: each token of its backlog (`protocols.HasBacklog`).
    rebuild: what a pass costs more behind one of another row count: the engine keeps
        the graph of its last pass, and builds another for another shape.
    refill: what it costs more for each row less than that one had: the longer a pass
        takes, the less of the weights is left in the processor's cache.
    """

    rows: tuple[int, ...]
    call: int = 0
    step: int = 0
    rebuild: int = 0
    refill: int = 0
    prefill: int = 0

    def draft(self, tokens: int) -> int:
        """What proposing `tokens` (>= 0) costs."""
        return self.call + self.step * tokens if tokens else 0

    def turn(self, before: int, width: int) -> int:
        """What a pass of `width` proposed tokens costs more behind one of `before`."""
        if before == width:
            return 0
        return self.rebuild + self.refill * max(0, before - width)


@dataclass(frozen=True, slots=True)
class Settings:
    """The speculation settings of one plan, resolved.

    draft_max: K, most tokens of a proposal (0 when the plan does not speculate).
    draft_min: a limit below it makes the round target-only.
    window: rejected rows the target drops without replay: K for a pure KV
        cache, min(S, K) for a recurrent target.
    snapshots: S, the width to which the guard and the controller clamp.
    context: cells of the context, prompt included.
    controller: who sets the width of each round (`power.speculation.controller`).
    costs: what the cost controller weighs; it needs them.
    """

    draft_max: int
    draft_min: int
    window: int
    snapshots: int
    context: int
    controller: ControllerKind = "fixed"
    costs: Costs | None = None


@dataclass(slots=True)
class Counters:
    """What happened, for the receipt. Positions count from 0."""

    rounds: int = 0
    target_only_rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    drafted_by_position: list[int] = field(default_factory=list)
    accepted_by_position: list[int] = field(default_factory=list)
    replays: int = 0
    guard_round: int | None = None  # 1-based, as all rounds here
    clamped_width: int | None = None
    widened_round: int | None = None
    circuit_round: int | None = None
    widths: list[tuple[int, int]] = field(default_factory=list)  # (width, rounds) run-length
    phases_ns: dict[Phase, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a request: everything emitted, why it stopped, and the counters."""

    ids: tuple[int, ...]
    text: bytes
    finish: Finish
    counters: Counters
    error: Exception | None = None  # set with Finish.FAILED
