"""The replay guard: at most one replay for a proposal wider than the rollback window."""

from __future__ import annotations

from power.speculation.outcome import Settings


class ReplayGuard:
    """Watches rejected suffixes and clamps the width once, for one request.

    With K > S a rejected suffix may be longer than the target can drop without
    replay. The first such round replays; `ceiling` then falls to S for the rest
    of the request, so that it cannot happen again. K <= S never fires, and
    S > K widens nothing.
    """

    __slots__ = ("_clamp", "_window", "ceiling", "fired_round")

    def __init__(self, settings: Settings) -> None:
        self._window = settings.window
        self._clamp = settings.snapshots
        self.ceiling = settings.draft_max
        self.fired_round: int | None = None

    def exceeds(self, rejected: int) -> bool:
        """Whether dropping `rejected` rows is more than the window: strictly longer."""
        return rejected > self._window

    def observe(self, round_number: int, rejected: int) -> None:
        """Take in one committed round (1-based) and the rows it dropped."""
        if self.fired_round is None and self.exceeds(rejected):
            self.fired_round = round_number
            self.ceiling = min(self.ceiling, self._clamp)
