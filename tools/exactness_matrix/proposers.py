"""Proposers that no model is behind: right, wrong, random, and none.

Whatever they propose, the target's ids may not change. The oracle also shows the
other end: everything that it proposes is accepted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence


class Told:
    """`power.speculation.protocols.Proposer` that is told what the target will say.

    ids: what the target says at this shape without a proposer. draft: what to
    propose after the first `at` of them, at most `limit` tokens.
    """

    def __init__(
        self, ids: Sequence[int], max_width: int, draft: Callable[[Sequence[int], int], list[int]]
    ) -> None:
        self._ids = ids
        self._draft = draft
        self._at = 0
        self.max_width = max_width

    def begin(self, prompt: Sequence[int]) -> None:
        """Start at the first token."""
        del prompt
        self._at = 0

    def checkpoint(self) -> int:
        """How many tokens were emitted."""
        return self._at

    def propose(self, limit: int) -> list[int]:
        """What `draft` makes of the tokens that come next."""
        return self._draft(self._ids[self._at :], limit)

    def commit(self, emitted: Sequence[int], accepted: int) -> None:
        """Go on by what was emitted."""
        del accepted
        self._at += len(emitted)

    def restore(self, checkpoint: object) -> None:
        """Go back."""
        assert isinstance(checkpoint, int)
        self._at = checkpoint


Make = Callable[[Sequence[int], int, int], Told]
"""(ids of the control run, K, size of the vocabulary) -> a proposer for one request."""


def _oracle(ids: Sequence[int], k: int, _size: int) -> Told:
    return Told(ids, k, lambda coming, limit: list(coming[:limit]))


def _anti_oracle(ids: Sequence[int], k: int, size: int) -> Told:
    return Told(ids, k, lambda coming, limit: [(t + 1) % size for t in coming[:limit]])


def _wrong_at(ids: Sequence[int], k: int, size: int) -> Told:
    """Right up to a place that moves through the proposal, so that every length is rejected."""
    rng = random.Random(11)

    def draft(coming: Sequence[int], limit: int) -> list[int]:
        tokens = list(coming[:limit])
        wrong = rng.randrange(limit + 1)
        return [t if i < wrong else (t + 1) % size for i, t in enumerate(tokens)]

    return Told(ids, k, draft)


def _random(ids: Sequence[int], k: int, size: int) -> Told:
    rng = random.Random(7)
    return Told(ids, k, lambda _, limit: [rng.randrange(size) for _ in range(limit)])


def _empty(ids: Sequence[int], k: int, _size: int) -> Told:
    return Told(ids, k, lambda _coming, _limit: [])


PROPOSERS: Mapping[str, Make] = {
    "oracle": _oracle,
    "anti-oracle": _anti_oracle,
    "wrong at each place": _wrong_at,
    "random": _random,
    "empty": _empty,
}
