"""How likely the next proposed token is right, learnt within one request.

A token's chance depends most on how many in a row were right before it (its
*run*): the text that a lookup copies from has matched that long already, and a
draft that was right four times is on the same track as the target. So every
position of every proposal is one observation of its run.
"""

from __future__ import annotations

from collections.abc import Sequence

PRIOR_WEIGHT = 4.0
"""Observations that the prior counts as. The prior of a run of r is (r - 1) / (r + 0.5): Laplace's
rule of succession, more doubtful, because most short matches are chance."""

MEMORY = 0.95
"""What an observation still counts once another one of its kind has come."""

UNGRADED_RUN = 4
"""The run at which a proposer starts that does not say how sure it is: chance 0.67."""

_EDGES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32)  # runs that begin a class of their own
LONGEST_RUN = _EDGES[-1]


class Acceptance:
    """Chances by run, from the prior and from decayed counts."""

    __slots__ = ("_chance", "_right", "_seen")

    def __init__(self) -> None:
        self._right = [0.0] * len(_EDGES)
        self._seen = [0.0] * len(_EDGES)
        self._chance = [_prior(run) for run in range(LONGEST_RUN + 1)]

    def chance(self, run: int) -> float:
        """The chance, 0 to 1, that the token behind `run` (>= 1) right ones is right."""
        return self._chance[min(run, LONGEST_RUN)]

    def learn(self, run: int, *, right: bool) -> None:
        """One token behind `run` right ones was right, or it was not."""
        kind = _KIND[min(run, LONGEST_RUN)]
        self._right[kind] = self._right[kind] * MEMORY + right
        self._seen[kind] = self._seen[kind] * MEMORY + 1.0
        self._update(_EDGES[kind])

    def _update(self, first: int) -> None:
        """The chances of all runs from `first` on, which begins a kind."""
        chances = self._chance
        below = chances[first - 1]
        for run in range(first, LONGEST_RUN + 1):
            kind = _KIND[run]
            if _EDGES[kind] == run:
                below = chances[run - 1]
            # What this request shows of shorter runs holds for the longer ones at least.
            prior = max(_prior(run), below)
            right, seen = self._right[kind], self._seen[kind]
            chances[run] = (PRIOR_WEIGHT * prior + right) / (PRIOR_WEIGHT + seen)


class Rehearsal:
    """What drafting would have brought, round by round, whether or not the rows were paid for.

    One proposal at a time is held against the tokens that come, up to its first
    mismatch: the rounds that a fixed width would have made. A proposal that is
    never verified teaches as much as one that is.
    """

    __slots__ = ("_acceptance", "_at", "_proposal", "_run")

    def __init__(self, acceptance: Acceptance) -> None:
        self._acceptance = acceptance
        self._proposal: Sequence[int] = ()
        self._run = 0
        self._at = 0

    def offer(self, proposal: Sequence[int], run: int, *, verified: bool) -> None:
        """A round begins with `proposal`, whose first token stands behind `run` right ones.

        A verified one always counts; another only once the one before has ended.
        """
        if verified or self._at == len(self._proposal):
            self._proposal, self._run, self._at = proposal, run, 0

    def watch(self, emitted: Sequence[int]) -> None:
        """The tokens of that round have come."""
        proposal, at = self._proposal, self._at
        for token in emitted:
            if at == len(proposal):
                break
            right = token == proposal[at]
            self._acceptance.learn(self._run + at, right=right)
            at = at + 1 if right else len(proposal)
        self._at = at


def _prior(run: int) -> float:
    return max(0, run - 1) / (run + 0.5)


_KIND = [sum(edge <= run for edge in _EDGES[1:]) for run in range(LONGEST_RUN + 1)]
