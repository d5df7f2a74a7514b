"""A width that moves at most twice: wider after a perfect start, and to nothing for good."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from power.speculation.outcome import Settings

WINDOW_ROUNDS = 12
"""Drafting rounds that the adaptive controller looks back on."""

MIN_ACCEPTED_PER_ROUND = 0.75
"""Acceptance below which a full window counts as low yield."""

MIN_EMPTY_ROUNDS = 6
"""Rounds of a full window that must have accepted nothing before the circuit opens."""


class AdaptiveController:
    """Starts narrow, widens at most once, gives up at most once; for one request.

    The first drafting round is a probe of min(K, S) tokens, a width at which no
    replay can happen. A fully accepted probe opens K for the rounds that follow;
    a partial one leaves it closed. A later partial round changes nothing, so the
    graph shape stays stable. When the last 12 drafting rounds accepted fewer than
    0.75 tokens each and at least 6 of them none, the request goes on target-only.
    """

    def __init__(self, settings: Settings) -> None:
        self._wide = settings.draft_max
        self._width = min(settings.draft_max, settings.snapshots)
        self._probed = False
        self._recent: deque[int] = deque(maxlen=WINDOW_ROUNDS)
        self.widened_round: int | None = None
        self.circuit_round: int | None = None

    def ask(self) -> int:
        """min(K, S), K once widened, 0 once the circuit is open."""
        return self._width

    def width(self, proposal: Sequence[int]) -> int:  # noqa: ARG002 - the protocol's
        """As `ask`: whatever was proposed is verified."""
        return self._width

    def observe(
        self,
        round_number: int,
        drafted: int,
        accepted: int,
        emitted: Sequence[int],  # noqa: ARG002 - the protocol's
    ) -> None:
        """Learn from a round; one that drafted nothing does not count."""
        if drafted == 0:
            return
        if not self._probed:
            self._probed = True
            if accepted == drafted and self._width < self._wide:
                self._width = self._wide
                self.widened_round = round_number
        self._recent.append(accepted)
        if self._low_yield():
            self._width = 0
            self.circuit_round = round_number

    def _low_yield(self) -> bool:
        recent = self._recent
        return (
            self.circuit_round is None
            and len(recent) == WINDOW_ROUNDS
            and sum(recent) < MIN_ACCEPTED_PER_ROUND * WINDOW_ROUNDS
            and recent.count(0) >= MIN_EMPTY_ROUNDS
        )
