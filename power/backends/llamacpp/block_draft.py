"""What DFlash, DFlash2 and DSpark share: a memory of target features, and blocks of masks over it.

The head's memory holds no tokens. For every committed token but the anchor it
holds keys and values that the head made of the target's inner layers, written
by a decode of embeddings at the token's position ("injection"). A proposal is
one decode of the anchor and a row of masks behind them; each row sees the
memory and all rows of the block, and says the token of its own place. The
block's rows are dropped again: they were made of guesses.
(llama.cpp `common/speculative.cpp`, the driver of `draft-dflash`.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from power.backends.llamacpp.context import Context, Row
from power.backends.llamacpp.drafting import Drafting, Host, MakeDrafting, cut_back, draft_shape
from power.backends.llamacpp.features import Features, layers_of
from power.backends.llamacpp.library import native
from power.backends.llamacpp.model import Model

_UNSAID_BLOCK = 16  # rows where a file does not say, as llama.cpp has it


@dataclass(frozen=True, slots=True)
class Form:
    """The shape of a head's blocks.

    block: rows that it was trained on, at most. first: the row that says the
    first token: 0 the anchor's own, 1 the first mask's. mask: id of the mask
    token. causal: whether a row sees only the rows before it.
    """

    block: int
    first: int
    mask: int
    causal: bool

    @property
    def width(self) -> int:
        """Most tokens of a proposal."""
        return self.block - self.first


def form_of(draft: Model, *, from_anchor: bool = False) -> Form:
    """What the file of the head `draft` says about its blocks."""
    block = draft.text("dflash.block_size")
    return Form(
        block=_UNSAID_BLOCK if block is None else int(block),
        first=0 if from_anchor else 1,
        mask=native().llama_vocab_mask(draft.vocab),
        causal=draft.text("dflash.attention.causal") == "true",
    )


@dataclass(frozen=True, slots=True)
class Block:
    """One decoded block, to be read before the context's next decode.

    logits: float32 [rows, vocabulary], none where they were not asked for.
    first: the row of the first token. rows: how many the block has.
    """

    context: Context
    logits: Row
    first: int
    rows: int


Read = Callable[[Block], list[int]]
"""The tokens that a block says, in order; it may stop early."""


@dataclass(frozen=True, slots=True)
class BlockState:
    """position: committed tokens but the anchor, each with a row in memory. anchor: a token id."""

    position: int
    anchor: int


class BlockDraft:
    """`power.speculation.protocols.Proposer` and observer of the target's rows.

    context: takes rows of features, empty. logits: whether blocks give logits,
    of all rows; the graph does not honour a choice among them and would answer
    for one row with another one's. The proposer has to see the prompt
    evaluated before it begins.
    """

    def __init__(  # noqa: PLR0913 - the parts of a proposer
        self,
        context: Context,
        features: Features,
        form: Form,
        read: Read,
        *,
        max_width: int,
        logits: bool = True,
    ) -> None:
        self._context = context
        self._features = features
        self._form = form
        self._read = read
        self._max_width = min(max_width, form.width)
        self._logits = logits
        self._begun = False
        self._pass: Row = np.empty((0, 0), np.float32)  # features of the target's last pass
        self._state = BlockState(0, 0)
        context.clear()

    @property
    def max_width(self) -> int:
        """Most tokens that it can propose at once: what was asked for, within a trained block."""
        return self._max_width

    def observe(self, tokens: Sequence[int], position: int) -> None:
        """Take the prompt's rows over at once, and keep those of a pass until its commit."""
        if not self._begun:
            self._inject(self._features.read(len(tokens)))
        elif position == self._state.position:
            self._pass = self._features.read(len(tokens))
        # Else it is a token of before: the target's memory was built up again, not this one.

    def begin(self, prompt: Sequence[int]) -> None:
        """The prompt's last token is the first anchor; the rows before it are there."""
        if self._state.position != len(prompt) - 1:
            msg = f"{self._state.position} rows of a prompt of {len(prompt)} tokens were observed"
            raise RuntimeError(msg)
        self._begun = True
        self._state = replace(self._state, anchor=prompt[-1])

    def checkpoint(self) -> BlockState:
        """The committed state."""
        return self._state

    def propose(self, limit: int) -> list[int]:
        """At most `limit` tokens, all from one decode."""
        form, state = self._form, self._state
        rows = min(limit, form.width) + form.first
        tokens = [state.anchor] + [form.mask] * (rows - 1)
        logits = self._context.decode(tokens, state.position, rows if self._logits else 0)
        proposal = self._read(Block(self._context, logits, form.first, rows))
        cut_back(self._context, self._state.position)
        return proposal

    def commit(self, emitted: Sequence[int], accepted: int) -> None:  # noqa: ARG002
        """Inject the features of the anchor and of every emitted token but the next anchor."""
        kept = len(emitted)
        if len(self._pass) < kept:
            msg = f"{kept} tokens of a pass of {len(self._pass)} observed rows"
            raise RuntimeError(msg)
        self._inject(self._pass[:kept])
        self._state = replace(self._state, anchor=emitted[-1])
        self._pass = self._pass[:0]

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`; rows behind it are dropped."""
        if not isinstance(checkpoint, BlockState) or checkpoint.position > self._state.position:
            msg = f"no checkpoint of this draft: {checkpoint!r}"
            raise ValueError(msg)
        self._state = checkpoint
        self._pass = self._pass[:0]
        cut_back(self._context, self._state.position)

    def _inject(self, features: Row) -> None:
        """Append rows to the memory, in decodes that the library takes whole.

        It aborts on more rows than a batch where they are not causal. A
        failure in between leaves rows behind the state, which `restore` drops.
        """
        position, size = self._state.position, self._context.batch_size
        for start in range(0, len(features), size):
            part = features[start : start + size]
            self._context.decode(None, position + start, 0, part)
        self._state = replace(self._state, position=position + len(features))


def open_block_draft(
    host: Host,
    *,
    reader: Callable[[Context, Model], Read],
    from_anchor: Callable[[Model], bool] = lambda _: False,
    logits: bool = True,
) -> MakeDrafting:
    """A context on the plan's draft that borrows from the target's what it has not of its own.

    reader: makes the kind's way to read a block, once. from_anchor: whether
    the draft's first token is that of the anchor's row. Raises PowerError P528.
    """
    draft, config = host.external(), host.config
    form = form_of(draft, from_anchor=from_anchor(draft))
    width = min(config.draft_max, form.width)
    features = Features(host.target, layers_of(draft))
    shape = replace(
        draft_shape(config),
        rows=width + form.first,
        other=host.target,
        causal=form.causal,
        widths=(len(layers_of(draft)) * host.model.width,),
    )
    context = host.context(draft, shape)
    read = reader(context, draft)

    def make() -> Drafting:
        proposer = BlockDraft(context, features, form, read, max_width=width, logits=logits)
        return Drafting(proposer, observer=proposer)

    return make


def said_by(host: Host) -> int | None:
    """Token ids below this may be proposed: the plan's `prefix` reduction, or None for all.

    The library projects a block on its whole head all the same; leaving the
    rest out here saves no time. It makes a draft propose what one with a
    truly smaller head would.
    """
    config = host.config
    return config.fr_vocab_size if config.fr_rule == "prefix" else None
