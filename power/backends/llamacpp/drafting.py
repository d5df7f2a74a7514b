"""What a draft strategy is given when it is opened, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from power.backends.errors import EngineError
from power.backends.interface import EngineConfig, Proposer
from power.backends.llamacpp.context import Context, ContextConfig
from power.backends.llamacpp.model import Model
from power.diagnostics import fail

_CELL_STEP = 256  # the library rounds a context up to it by itself


class RowObserver(Protocol):
    """Looks at the target's hidden states while they are there."""

    def observe(self, tokens: Sequence[int], position: int) -> None:
        """`tokens` were evaluated from `position` on, as rows 0, 1, ... of the target's context.

        Called after each decode of the target and before the next one: its
        `nextn(len(tokens))` and `layer_input(layer, len(tokens))` are those
        rows. Padding is never among them. Before the proposer's `begin` all
        rows are the prompt's. After it they are advice until the proposer's
        `commit` says how many of them stand: a pass that is replayed, restored
        or evaluated again comes again, at the same positions.
        """
        ...


@dataclass(frozen=True, slots=True)
class Drafting:
    """The draft's side of one request: the proposer, and who looks at the target's rows."""

    proposer: Proposer
    observer: RowObserver | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """What a strategy may build on; all of it outlives what the strategy opens.

    model and target: the target's weights and its context, empty. draft: the
    weights of the plan's external draft. own: takes a context to be closed
    before all of these, and gives it back.
    """

    config: EngineConfig
    model: Model
    target: Context
    draft: Model | None
    own: Callable[[Context], Context]

    def external(self) -> Model:
        """The weights of the plan's draft; the strategy has to be one that is opened with them.

        Raises PowerError P528 when its vocabulary has another size than the target's.
        """
        if self.draft is None:
            msg = f"`{self.config.strategy}` has no draft of its own"
            raise RuntimeError(msg)
        if self.draft.vocabulary_size != self.model.vocabulary_size:
            fail(
                "P528",
                "the draft has another vocabulary than the target",
                expected=f"{self.model.vocabulary_size} tokens",
                found=f"{self.draft.vocabulary_size} tokens",
                hint="choose a draft made for this target",
            )
        return self.draft

    def context(self, model: Model, shape: ContextConfig) -> Context:
        """A context of `model` that is closed with the engine."""
        return self.own(Context(model, shape))


MakeDrafting = Callable[[], Drafting]
"""A fresh proposer for one request, on contexts that are there already."""

Open = Callable[[Host], MakeDrafting]
"""Makes a strategy's contexts, once a process."""


def cut_back(context: Context, cells: int) -> None:
    """Drop what a draft's memory holds behind `cells`; EngineError when it does not hold those."""
    if not context.trimmed_to(cells):
        raise EngineError("decode", f"the draft holds {context.filled()} rows in place of {cells}")


def rounded(cells: int) -> int:
    """The number of cells the library makes of `cells`."""
    return -(-cells // _CELL_STEP) * _CELL_STEP


def draft_shape(config: EngineConfig) -> ContextConfig:
    """The shape of a draft's context: the plan's context and a proposal, one row of logits."""
    cells = rounded(config.context + config.draft_max + 1)
    return ContextConfig(
        cells=cells,
        batch=min(max(config.prefill_batch, config.draft_max + 2), cells),
        rows=1,
        threads=config.threads,
        flash_attention=config.flash_attention,
        offload=config.gpu_layers != 0,
    )
