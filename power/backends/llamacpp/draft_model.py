"""A small model of the same vocabulary that runs ahead of the target, greedily."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from power.backends.llamacpp.choice import most_probable
from power.backends.llamacpp.context import Context, Row
from power.backends.llamacpp.drafting import Drafting, Host, MakeDrafting, draft_shape


@dataclass(frozen=True, slots=True)
class DraftCheckpoint:
    """How many tokens were known; any prefix of them may be in the draft's memory."""

    tokens: int


class DraftModel:
    """`power.speculation.protocols.Proposer` on a context of its own.

    max_width: most tokens of a proposal. p_min: a token the draft gives less
    probability than this ends the proposal before it.

    The draft's memory holds a prefix of the known tokens: the anchor is known
    but not evaluated, and after a full acceptance so is the token before it.
    Whatever is missing is evaluated in front of the next proposal. A draft can
    only cost time, never a token, so its logits need no equality of bits.
    """

    def __init__(self, context: Context, *, max_width: int, p_min: float) -> None:
        self._context = context
        self._max_width = max_width
        self._p_min = p_min
        self._tokens: list[int] = []
        self._cells = 0  # of `_tokens`, evaluated
        self._proposal: list[int] = []

    @property
    def max_width(self) -> int:
        """Most tokens that it can propose at once."""
        return self._max_width

    def begin(self, prompt: Sequence[int]) -> None:
        """Take the prompt; it is evaluated in front of the first proposal, if one is asked for."""
        self._context.clear()
        self._tokens, self._cells, self._proposal = list(prompt), 0, []

    def checkpoint(self) -> DraftCheckpoint:
        """The committed state."""
        return DraftCheckpoint(len(self._tokens))

    def backlog(self) -> int:
        """Known tokens that are not evaluated, the anchor aside."""
        return max(0, len(self._tokens) - 1 - self._cells)

    def propose(self, limit: int) -> list[int]:
        """At most `limit` tokens, each the draft's most probable one after those before."""
        self._proposal = []
        # What follows a proposal that nobody committed goes; the anchor is always evaluated anew.
        self._cells = min(self._cells, len(self._tokens) - 1)
        self._trim()
        row = self._evaluate_known(len(self._tokens))
        while (token := most_probable(row[0], self._p_min)) is not None:
            self._proposal.append(token)
            if len(self._proposal) == limit:
                break
            position = len(self._tokens) + len(self._proposal) - 1
            row = self._context.decode((token,), position, outputs=1)
        return list(self._proposal)

    def commit(self, emitted: Sequence[int], accepted: int) -> None:
        """Take the emitted tokens over and drop the evaluated ones that were rejected."""
        evaluated = max(0, len(self._proposal) - 1)  # the last proposed token never is
        self._cells += min(accepted, evaluated)
        self._tokens.extend(emitted)
        self._proposal = []
        self._trim()

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`."""
        if not isinstance(checkpoint, DraftCheckpoint) or checkpoint.tokens > len(self._tokens):
            msg = f"no checkpoint of this draft: {checkpoint!r}"
            raise ValueError(msg)
        del self._tokens[checkpoint.tokens :]
        self._cells = min(self._cells, checkpoint.tokens)
        self._proposal = []
        self._trim()

    def _trim(self) -> None:
        if not self._context.trimmed_to(self._cells):
            # Forgetting everything is always possible: the next proposal evaluates it again.
            self._context.clear()
            self._cells = 0

    def _evaluate_known(self, end: int) -> Row:
        """Evaluate the known tokens up to `end`; logits [1, vocabulary] of the last one."""
        row: Row = np.empty((0, 0), np.float32)
        size = self._context.batch_size
        while self._cells < end:
            chunk = self._tokens[self._cells : min(end, self._cells + size)]
            row = self._context.decode(chunk, self._cells, outputs=1)
            self._cells += len(chunk)
        return row


def open_draft_model(host: Host) -> MakeDrafting:
    """The strategy `draft-model`: a context on the plan's draft; raises PowerError P528."""
    draft, config = host.external(), host.config
    context = host.context(draft, draft_shape(config))
    return lambda: Drafting(
        DraftModel(context, max_width=config.draft_max, p_min=config.draft_p_min)
    )
