"""Native multi-token prediction: the target's own extra block as its draft.

The block runs in a context of its own on the target's weights. Its row at
position p takes the token x[p] and the target's hidden state h[p-1], and says
x[p+1]. For the second and later tokens of a proposal there is no h of the
target yet: the block's own hidden state stands in, and those rows are dropped
again and redone with the true h, in one decode with the next anchor's row.
(llama.cpp `common/speculative.cpp`, the driver of `draft-mtp`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from power.backends.interface import EngineConfig
from power.backends.llamacpp.choice import most_probable
from power.backends.llamacpp.context import Context, Row
from power.backends.llamacpp.drafting import Drafting, Host, MakeDrafting, cut_back, draft_shape
from power.backends.llamacpp.reduced_head import ReducedHead, read_head, read_ranked_head
from power.diagnostics import fail


@dataclass(frozen=True, slots=True)
class MtpState:
    """What is known between two steps; the arrays are never written to.

    position: of the anchor, the last emitted token. hidden: the target's state
    behind the token before it, float32 [width]. cells: rows in the block's
    memory, all with true states. late: tokens before the anchor that have no
    row yet, and the states to go with them.
    """

    position: int
    anchor: int
    hidden: Row
    cells: int
    late: tuple[tuple[int, Row], ...] = ()


class Mtp:
    """`power.speculation.protocols.Proposer` and observer of the target's rows.

    context: of kind `mtp`, empty. head: projects a hidden row in place of the
    block's own output head. The proposer has to see the prompt evaluated
    before it begins.
    """

    def __init__(  # noqa: PLR0913 - the parts of a proposer
        self,
        context: Context,
        target: Context,
        *,
        width: int,
        max_width: int,
        p_min: float,
        head: ReducedHead | None = None,
    ) -> None:
        self._context = context
        self._target = target
        self._max_width = max_width
        self._p_min = p_min
        self._head = head
        self._begun = False
        self._last_rows = 0  # of the block's last decode
        self._pass: Row = np.empty((0, width), np.float32)  # states of the target's last pass
        self._state = MtpState(0, 0, np.zeros(width, np.float32), 0)
        context.clear()

    @property
    def max_width(self) -> int:
        """Most tokens that it can propose at once."""
        return self._max_width

    def observe(self, tokens: Sequence[int], position: int) -> None:
        """Take the prompt's rows over at once, and keep those of a pass until its commit."""
        hidden = self._target.nextn(len(tokens)).copy()
        if not self._begun:
            state = self._state
            self._evaluate(tokens, np.vstack([state.hidden, hidden[:-1]]), state.cells)
            cells = state.cells + len(tokens)
            self._state = replace(state, position=cells, hidden=hidden[-1], cells=cells)
        elif position == self._state.position:
            self._pass = hidden
        # Else it is a token of before: the target's memory was built up again, not this one.

    def begin(self, prompt: Sequence[int]) -> None:
        """The prompt's last token is the first anchor; the rows before it are there."""
        if self._state.cells != len(prompt) - 1:
            msg = f"{self._state.cells} rows of a prompt of {len(prompt)} tokens were observed"
            raise RuntimeError(msg)
        self._begun = True
        self._state = replace(self._state, anchor=prompt[-1])

    def checkpoint(self) -> MtpState:
        """The committed state."""
        return self._state

    def propose(self, limit: int) -> list[int]:
        """At most `limit` tokens, each the block's most probable one after those before."""
        state = self._state
        cut_back(self._context, state.cells)
        rows = (*state.late, (state.anchor, state.hidden))
        tokens, hidden = zip(*rows, strict=True)
        logits = self._evaluate(tokens, np.stack(hidden), state.cells)
        self._state = replace(state, cells=state.position + 1, late=())
        proposal: list[int] = []
        while (row := most_probable(logits, self._p_min)) is not None:
            token = row if self._head is None else self._head.token(row)
            proposal.append(token)
            if len(proposal) == limit:
                break
            own = self._context.nextn(self._last_rows)[-1:].copy()
            logits = self._evaluate([token], own, state.position + len(proposal))
        return proposal

    def commit(self, emitted: Sequence[int], accepted: int) -> None:  # noqa: ARG002
        """Drop the rows with stand-in states, and note the true ones for the next decode."""
        state, kept = self._state, len(emitted)
        if len(self._pass) < kept:
            msg = f"{kept} tokens of a pass of {len(self._pass)} observed rows"
            raise RuntimeError(msg)
        cut_back(self._context, state.cells)
        late = list(state.late)
        if state.cells + len(late) == state.position:  # nothing was proposed this round
            late.append((state.anchor, state.hidden))
        late += zip(emitted[:-1], self._pass, strict=False)
        self._state = MtpState(
            position=state.position + kept,
            anchor=emitted[-1],
            hidden=self._pass[kept - 1],
            cells=state.cells,
            late=tuple(late),
        )
        self._pass = self._pass[:0]

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`; rows behind it are dropped."""
        if not isinstance(checkpoint, MtpState) or checkpoint.position > self._state.position:
            msg = f"no checkpoint of this draft: {checkpoint!r}"
            raise ValueError(msg)
        self._state = checkpoint
        self._pass = self._pass[:0]
        cut_back(self._context, checkpoint.cells)

    def _evaluate(self, tokens: Sequence[int], hidden: Row, position: int) -> Row:
        """Logits of the last row, float32 [tokens of the head]; none while it reads the prompt."""
        outputs = int(self._begun and self._head is None)
        logits: Row = np.empty((0, 0), np.float32)
        size = self._context.batch_size
        for start in range(0, len(tokens), size):
            part = slice(start, start + size)
            chunk = tokens[part]
            logits = self._context.decode(chunk, position + start, outputs, hidden[part])
            self._last_rows = len(chunk)
        if not self._begun:
            return logits
        if self._head is not None:
            return self._head.project(self._context.nextn(self._last_rows)[-1])
        last: Row = logits[0]
        return last


def _reduced_head(config: EngineConfig) -> ReducedHead | None:
    if config.fr_rule == "d2t":
        return read_ranked_head(config.target, config.draft)
    if config.fr_vocab_size is not None and config.fr_rule == "prefix":
        return read_head(config.target, config.fr_vocab_size)
    return None


def open_mtp(host: Host) -> MakeDrafting:
    """The strategy `mtp`: a second context on the target's weights.

    Raises PowerError P529 for a target that has not exactly one block for it.
    """
    config, model = host.config, host.model
    if not model.has_mtp:
        fail(
            "P529",
            "the target has no block for native multi-token prediction",
            hint="choose another `spec_mode` and compile the plan again",
        )
    shape = replace(draft_shape(config), kind="mtp", widths=(model.width,))
    context = host.context(model, shape)
    # Of several rows, a masked context of this block gives the first one's state for the last.
    context.expose_nextn(masked=False)
    host.target.expose_nextn(masked=False)
    head = _reduced_head(config)

    def make() -> Drafting:
        mtp = Mtp(
            context,
            host.target,
            width=model.width,
            max_width=config.draft_max,
            p_min=config.draft_p_min,
            head=head,
        )
        return Drafting(mtp, observer=mtp)

    return make
