"""How wide the next proposal may be: a fixed width, or one that answers to what came of the last.

The replay guard stands beside the controller, not inside it: it bounds whatever
width a controller asks for (`power.speculation.guard`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from power.speculation.adaptive import AdaptiveController
from power.speculation.cost import CostController
from power.speculation.outcome import Settings
from power.speculation.protocols import Graded, HasBacklog, Proposer


class Controller(Protocol):
    """Decides in each round what to ask for and what to verify; made for one request.

    A round calls `ask`, then `width` with what was proposed, then `observe`.
    """

    @property
    def widened_round(self) -> int | None:
        """The round (1-based) after which the wide shape opened; None when it did not."""
        ...

    @property
    def circuit_round(self) -> int | None:
        """The round (1-based) after which the request became target-only, or None."""
        ...

    def ask(self) -> int:
        """Most tokens to ask the proposer for; 0 when it is not to be asked."""
        ...

    def width(self, proposal: Sequence[int]) -> int:
        """Most tokens of `proposal` that are worth a row of the pass; 0 for a target-only round.

        proposal: at most `ask()` tokens, fewer or none where the request ends soon,
        the guard clamps, or the proposer has less to say.
        """
        ...

    def observe(
        self, round_number: int, drafted: int, accepted: int, emitted: Sequence[int]
    ) -> None:
        """One round was committed: 0 <= accepted <= drafted <= the width it was given.

        emitted: the accepted tokens and, but for an end inside them, one more.
        """
        ...


class FixedController:
    """The same width for every round."""

    widened_round: int | None = None
    circuit_round: int | None = None

    def __init__(self, width: int) -> None:
        self._width = width

    def ask(self) -> int:
        """The width it was made with."""
        return self._width

    def width(self, proposal: Sequence[int]) -> int:  # noqa: ARG002 - the protocol's
        """The width it was made with."""
        return self._width

    def observe(
        self, round_number: int, drafted: int, accepted: int, emitted: Sequence[int]
    ) -> None:
        """Nothing to learn."""


def make_controller(settings: Settings, proposer: Proposer) -> Controller:
    """The controller that `settings` ask for, fresh for one request of `proposer`."""
    if settings.controller == "adaptive":
        return AdaptiveController(settings)
    if settings.controller == "cost":
        grade = proposer if isinstance(proposer, Graded) else None
        return CostController(
            settings, grade, proposer if isinstance(proposer, HasBacklog) else None
        )
    return FixedController(settings.draft_max)
