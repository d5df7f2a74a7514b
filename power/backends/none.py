"""No proposals: every round is target-only."""

from __future__ import annotations

from collections.abc import Sequence


class NoProposer:
    """The proposer of `off` and of control runs."""

    max_width = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing to take in."""

    def checkpoint(self) -> object:
        """No state."""
        return None

    def propose(self, limit: int) -> Sequence[int]:  # noqa: ARG002 - the protocol's
        """Nothing, whatever `limit` is."""
        return ()

    def commit(self, emitted: Sequence[int], accepted: int) -> None:
        """Nothing to keep up with."""

    def restore(self, checkpoint: object) -> None:
        """Nothing to return to."""
