"""Counters and phases."""

from collections.abc import Iterator

import pytest

from power.speculation.controller import FixedController
from power.speculation.guard import ReplayGuard
from power.speculation.outcome import Counters, Phase, Settings
from power.speculation.tally import PhaseClock, Tally

SETTINGS = Settings(draft_max=3, draft_min=0, window=3, snapshots=3, context=100)


def counted(tally: Tally) -> Counters:
    clock = PhaseClock(lambda: 0)
    return tally.counters(ReplayGuard(SETTINGS), FixedController(3), clock)


@pytest.mark.complaint(n=25)
def test_every_interval_is_in_exactly_one_phase() -> None:
    times: Iterator[int] = iter([100, 103, 110, 125, 126])
    clock = PhaseClock(lambda: next(times))
    for phase in (Phase.VERIFY, Phase.SAMPLE, Phase.VERIFY, Phase.OTHER):
        clock.enter(phase)
    spent = {phase: ns for phase, ns in clock.spent.items() if ns}
    assert spent == {Phase.OTHER: 3, Phase.VERIFY: 7 + 1, Phase.SAMPLE: 15}
    assert set(clock.spent) == set(Phase)


def test_positions_count_rounds_that_reached_them() -> None:
    tally = Tally(3)
    for drafted, accepted in ((3, 3), (3, 1), (1, 0), (0, 0), (2, 2)):
        tally.add(width=3, drafted=drafted, accepted=accepted, replayed=False)
    counters = counted(tally)
    assert counters.drafted_by_position == [4, 3, 2]
    assert counters.accepted_by_position == [3, 2, 1]
    assert (counters.drafted, counters.accepted) == (9, 6)
    assert (counters.rounds, counters.target_only_rounds) == (5, 1)


def test_widths_are_run_lengths() -> None:
    tally = Tally(3)
    for width in (3, 3, 2, 3, 0, 0, 0):
        tally.add(width=width, drafted=0, accepted=0, replayed=width == 2)
    counters = counted(tally)
    assert counters.widths == [(3, 2), (2, 1), (3, 1), (0, 3)]
    assert counters.replays == 1


def test_a_plan_that_does_not_speculate_has_no_positions() -> None:
    tally = Tally(0)
    tally.add(width=0, drafted=0, accepted=0, replayed=False)
    counters = counted(tally)
    assert counters.drafted_by_position == counters.accepted_by_position == []
    assert (counters.drafted, counters.accepted, counters.target_only_rounds) == (0, 0, 1)
