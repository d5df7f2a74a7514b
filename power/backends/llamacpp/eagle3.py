"""EAGLE-3: one decoder layer that runs ahead on fused features of three target layers.

Features of the target's row P go through an encoder and come out as g[P]. The
decoder's row at position P takes g[P] beside the token at P + 1 and says the
one at P + 2. So the last committed row waits until the token behind it, the
anchor, is known. For the second and later tokens of a proposal the decoder's
own hidden state stands in for g; those rows are dropped again and redone with
the true g, in one decode with the next anchor's row.
(llama.cpp `common/speculative.cpp`, the driver of `draft-eagle3`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from power.backends.llamacpp.block_draft import said_by
from power.backends.llamacpp.choice import most_probable
from power.backends.llamacpp.context import Context, Row
from power.backends.llamacpp.drafting import Drafting, Host, MakeDrafting, cut_back, draft_shape
from power.backends.llamacpp.features import Features, layers_of


@dataclass(frozen=True, slots=True)
class Eagle3State:
    """What is known between two steps; the arrays are never written to.

    position: of the anchor, the last emitted token. fused: g of the token
    before it, float32 [width], or None for a prompt of one token. cells: rows
    in the decoder's memory, all of true g. late: tokens before the anchor that
    have no row yet, and the g to go with them.
    """

    position: int
    anchor: int
    fused: Row | None
    cells: int
    late: tuple[tuple[int, Row], ...] = ()


class Eagle3:
    """`power.speculation.protocols.Proposer` and observer of the target's rows.

    context: takes rows of features and rows of the draft's width, empty. rows:
    most rows of it with logits. vocabulary: ids below it may be proposed, None
    for all. The proposer has to see the prompt evaluated before it begins.
    """

    def __init__(  # noqa: PLR0913 - the parts of a proposer
        self,
        context: Context,
        features: Features,
        *,
        rows: int,
        max_width: int,
        p_min: float,
        vocabulary: int | None = None,
    ) -> None:
        self._context = context
        self._features = features
        self._rows = rows
        self._max_width = max_width
        self._p_min = p_min
        self._vocabulary = vocabulary
        self._begun = False
        self._pass: Row = np.empty((0, 0), np.float32)  # features of the target's last pass
        self._state = Eagle3State(0, 0, None, 0)
        context.clear()

    @property
    def max_width(self) -> int:
        """Most tokens that it can propose at once."""
        return self._max_width

    def observe(self, tokens: Sequence[int], position: int) -> None:
        """Take the prompt's rows over at once, and keep those of a pass until its commit."""
        features = self._features.read(len(tokens))
        if not self._begun:
            size = self._context.batch_size
            for start in range(0, len(tokens), size):
                part = slice(start, start + size)
                self._advance(tokens[part], features[part])
            self._settle(0)
        elif position == self._state.position:
            self._pass = features
        # Else it is a token of before: the target's memory was built up again, not this one.

    def begin(self, prompt: Sequence[int]) -> None:
        """The prompt's last token is the first anchor; the rows before it are there."""
        if self._state.position != len(prompt) - 1:
            msg = f"{self._state.position} rows of a prompt of {len(prompt)} tokens were observed"
            raise RuntimeError(msg)
        self._begun = True
        self._state = replace(self._state, anchor=prompt[-1])

    def checkpoint(self) -> Eagle3State:
        """The committed state."""
        return self._state

    def propose(self, limit: int) -> list[int]:
        """At most `limit` tokens, each the most probable one; none before there are features."""
        state = self._state
        if state.fused is None:
            return []
        # The anchor's row is there already after a proposal that nobody committed; it is made anew.
        cells = min(state.cells, state.position - 1)
        cut_back(self._context, cells)
        tokens, fused = zip(*state.late, (state.anchor, state.fused), strict=True)
        # The graph does not honour a choice among rows: all of them give logits, or none.
        logits = self._context.decode(tokens, cells, len(tokens), np.stack(fused))
        own = self._context.nextn(len(tokens))[-1:]
        self._state = replace(state, cells=state.position, late=())
        proposal: list[int] = []
        while (token := self._choose(logits[-1])) is not None:
            proposal.append(token)
            if len(proposal) == limit:
                break
            position = state.position + len(proposal) - 1
            logits = self._context.decode([token], position, 1, own.copy())
            own = self._context.nextn(1)
        return proposal

    def commit(self, emitted: Sequence[int], accepted: int) -> None:  # noqa: ARG002
        """Drop the rows with stand-ins, and note the true ones for the next decode."""
        state, kept = self._state, len(emitted)
        if len(self._pass) < kept:
            msg = f"{kept} tokens of a pass of {len(self._pass)} observed rows"
            raise RuntimeError(msg)
        cut_back(self._context, state.cells)
        self._advance([state.anchor, *emitted[:-1]], self._pass[:kept])
        self._state = replace(self._state, anchor=emitted[-1])
        self._pass = self._pass[:0]
        self._settle(self._rows - 1)

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`; rows behind it are dropped."""
        if not isinstance(checkpoint, Eagle3State) or checkpoint.position > self._state.position:
            msg = f"no checkpoint of this draft: {checkpoint!r}"
            raise ValueError(msg)
        self._state = checkpoint
        self._pass = self._pass[:0]
        cut_back(self._context, checkpoint.cells)

    def _choose(self, logits: Row) -> int | None:
        return most_probable(logits[: self._vocabulary], self._p_min)

    def _advance(self, tokens: Sequence[int], features: Row) -> None:
        """Take committed rows in: `tokens` from the anchor's position on, and their features."""
        state = self._state
        self._context.encode(features)
        fused = self._context.nextn(len(tokens)).copy()
        late = [*state.late]
        # The first token's row is there already where it was the anchor of a proposal.
        if state.fused is not None and state.cells + len(late) < state.position:
            late.append((tokens[0], state.fused))
        late += zip(tokens[1:], fused, strict=False)
        self._state = replace(
            state,
            position=state.position + len(tokens),
            fused=fused[-1],
            late=tuple(late),
        )

    def _settle(self, most: int) -> None:
        """Give rows to the late tokens, without logits, until at most `most` are left."""
        size = self._context.batch_size
        while len(self._state.late) > most:
            state = self._state
            tokens, fused = zip(*state.late[:size], strict=True)
            self._context.decode(tokens, state.cells, 0, np.stack(fused))
            self._state = replace(state, cells=state.cells + len(tokens), late=state.late[size:])


def open_eagle3(host: Host) -> MakeDrafting:
    """The strategy `eagle3`, on the plan's draft; raises PowerError P528."""
    draft, config = host.external(), host.config
    layers = layers_of(draft)
    features = Features(host.target, layers)
    rows = config.draft_max + 2
    shape = replace(
        draft_shape(config),
        rows=rows,
        other=host.target,
        widths=(len(layers) * host.model.width, draft.width),
    )
    context = host.context(draft, shape)
    context.expose_nextn(masked=True)  # all rows give logits, so all are there

    def make() -> Drafting:
        eagle3 = Eagle3(
            context,
            features,
            rows=rows,
            max_width=config.draft_max,
            p_min=config.draft_p_min,
            vocabulary=said_by(host),
        )
        return Drafting(eagle3, observer=eagle3)

    return make
