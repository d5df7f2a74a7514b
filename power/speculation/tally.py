"""Counting rounds and time, cheaply enough to do it in every round."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from power.speculation.controller import Controller
from power.speculation.guard import ReplayGuard
from power.speculation.outcome import Counters, Phase


class PhaseClock:
    """Gives every interval of a request to exactly one phase, so that they add up.

    clock: a monotonic time in ns, such as `time.perf_counter_ns`.
    """

    __slots__ = ("_clock", "_phase", "_since", "spent")

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._phase = Phase.OTHER
        self.spent = dict.fromkeys(Phase, 0)
        self._since = clock()

    def enter(self, phase: Phase) -> None:
        """Close the running phase and start `phase`."""
        now = self._clock()
        self.spent[self._phase] += now - self._since
        self._since = now
        self._phase = phase


class Tally:
    """Committed rounds only: a round that was rolled back leaves no trace here."""

    __slots__ = ("_accepted", "_drafted", "_replays", "_widths", "rounds")

    def __init__(self, draft_max: int) -> None:
        self.rounds = 0
        self._drafted = [0] * (draft_max + 1)  # rounds by proposal length
        self._accepted = [0] * (draft_max + 1)  # rounds by accepted tokens
        self._replays = 0
        self._widths: list[list[int]] = []

    def add(self, *, width: int, drafted: int, accepted: int, replayed: bool) -> None:
        """Count one round. width: what controller, guard and proposer allowed."""
        self.rounds += 1
        self._drafted[drafted] += 1
        self._accepted[accepted] += 1
        self._replays += replayed
        if self._widths and self._widths[-1][0] == width:
            self._widths[-1][1] += 1
        else:
            self._widths.append([width, 1])

    def counters(self, guard: ReplayGuard, controller: Controller, clock: PhaseClock) -> Counters:
        """Everything counted, with the events of guard and controller."""
        drafted, accepted = _by_position(self._drafted), _by_position(self._accepted)
        return Counters(
            rounds=self.rounds,
            target_only_rounds=self._drafted[0],
            drafted=sum(drafted),
            accepted=sum(accepted),
            drafted_by_position=drafted,
            accepted_by_position=accepted,
            replays=self._replays,
            guard_round=guard.fired_round,
            clamped_width=None if guard.fired_round is None else guard.ceiling,
            widened_round=controller.widened_round,
            circuit_round=controller.circuit_round,
            widths=[(width, rounds) for width, rounds in self._widths],
            phases_ns=dict(clock.spent),
        )


def _by_position(rounds_by_length: list[int]) -> list[int]:
    """How many rounds reached position 0, 1, ...: those at least that long."""
    return list(accumulate(reversed(rounds_by_length[1:])))[::-1]
