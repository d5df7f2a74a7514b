"""Proposers that no model is behind: right, wrong, random, silent, and one that only takes notes.

Whatever they propose, the target's ids may not change. The oracle also shows the
other end: everything that it proposes is accepted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from power.speculation.protocols import Proposer


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
        self._at = cast(int, checkpoint)


Make = Callable[[Sequence[int], int, int, int], Told]
"""(ids of the control run, K, size of the vocabulary, seed) -> a proposer for one request."""


def _oracle(ids: Sequence[int], k: int, _size: int, _seed: int) -> Told:
    return Told(ids, k, lambda coming, limit: list(coming[:limit]))


def _anti_oracle(ids: Sequence[int], k: int, size: int, _seed: int) -> Told:
    return Told(ids, k, lambda coming, limit: [(t + 1) % size for t in coming[:limit]])


def _wrong_at(ids: Sequence[int], k: int, size: int, seed: int) -> Told:
    """Right up to a place that moves through the proposal, so that every length is rejected."""
    rng = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret

    def draft(coming: Sequence[int], limit: int) -> list[int]:
        tokens = list(coming[:limit])
        wrong = rng.randrange(limit + 1)
        return [t if i < wrong else (t + 1) % size for i, t in enumerate(tokens)]

    return Told(ids, k, draft)


def _random(ids: Sequence[int], k: int, size: int, seed: int) -> Told:
    rng = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    return Told(ids, k, lambda _, limit: [rng.randrange(size) for _ in range(limit)])


def _empty(ids: Sequence[int], k: int, _size: int, _seed: int) -> Told:
    return Told(ids, k, lambda _coming, _limit: [])


TOLD: Mapping[str, Make] = {
    "oracle": _oracle,
    "anti-oracle": _anti_oracle,
    "wrong-at": _wrong_at,
    "random": _random,
    "empty": _empty,
}
"""Name -> its maker. `oracle`, `anti-oracle` and `wrong-at` need the control run's ids."""


class Recorder:
    """Asks another proposer at every position and proposes nothing.

    Every round stays target-only, so that each proposal is made on the target's
    own text. proposals: one for each round in which there was room for one, in
    order; of a round that was rolled back there is none.
    """

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer
        self.proposals: list[tuple[int, ...]] = []
        self.max_width = proposer.max_width
        self.begin = proposer.begin

    def checkpoint(self) -> object:
        """The other's, and how many proposals there are."""
        return self._proposer.checkpoint(), len(self.proposals)

    def propose(self, limit: int) -> Sequence[int]:
        """Nothing; what the other proposes is kept."""
        self.proposals.append(tuple(self._proposer.propose(limit))[:limit])
        return ()

    def commit(self, emitted: Sequence[int], accepted: int) -> None:
        """The other goes on too, with none of its tokens accepted."""
        self._proposer.commit(emitted, accepted)

    def restore(self, checkpoint: object) -> None:
        """The other goes back too."""
        theirs, count = cast(tuple[object, int], checkpoint)
        self._proposer.restore(theirs)
        del self.proposals[count:]
