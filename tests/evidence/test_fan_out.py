"""Fanning out, told step by step: a crew that dies where it is told to, and no process."""

from __future__ import annotations

import pickle
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.diagnostics import Diagnostic, ExitCode, PowerError, Span
from power.evidence.design import Cell, Design, Session
from power.evidence.executor import Finished
from power.evidence.fan_out.roster import TRIES, Ended, Roster, crowding, cut, fan_out
from tests.receipt.scripted import scripted_plan

KILLED = PowerError((Diagnostic("P517", "killed", hint="-"),))
REFUSED = PowerError((Diagnostic("P231", "another digest", hint="-"),))


def finished(cell: Cell) -> Finished:
    return Finished(cell, cast(Any, None), cast(Any, None))


@dataclass
class Told:
    """Runs sessions in turn. deaths: after how many samples each session it starts ends."""

    workers: int
    deaths: Sequence[int | None]
    error: BaseException = field(default_factory=lambda: KILLED)
    repeat: int = 1
    started: list[Session] = field(default_factory=list)
    running: deque[deque[Finished | Ended]] = field(default_factory=deque)

    def free(self) -> bool:
        return len(self.running) < self.workers

    def start(self, session: Session) -> None:
        number = len(self.started)
        self.started.append(session)
        dies = self.deaths[number] if number < len(self.deaths) else None
        events = deque[Finished | Ended](
            finished(cell) for cell in session.cells() for _ in range(self.repeat)
        )
        error = None
        if dies is not None:
            events = deque(list(events)[:dies])
            error = self.error
        events.append(Ended(session, error))
        self.running.append(events)

    def wait(self) -> Finished | Ended | None:
        events = self.running.popleft()
        event = events.popleft()
        if events:
            self.running.append(events)
        return event


DESIGNS = st.builds(Design, st.integers(1, 3), st.integers(1, 5), st.integers(1, 3))


@given(
    design=DESIGNS,
    workers=st.integers(1, 5),
    deaths=st.lists(st.none() | st.integers(1, 5), max_size=20),
    repeat=st.integers(1, 2),
)
def test_every_sample_comes_once(
    design: Design, workers: int, deaths: list[int | None], repeat: int
) -> None:
    """Whoever dies after a sample, wherever it is: nothing is lost and nothing comes twice."""
    crew = Told(workers, deaths, repeat=repeat)
    came = Counter(found.cell for found in fan_out(design.sessions(), crew))
    assert came == Counter(design.cells())


@given(design=DESIGNS, workers=st.integers(1, 40))
def test_pieces_are_the_sessions(design: Design, workers: int) -> None:
    """The same samples in the same order, and work for everyone where there is enough."""
    pieces = cut(design.sessions(), workers)
    assert [cell for piece in pieces for cell in piece.cells()] == list(design.cells())
    assert len(pieces) >= min(workers, design.size)


def test_enough_sessions_stay_whole() -> None:
    sessions = list(Design(2, 5, 2).sessions())
    assert cut(sessions, 2) == sessions
    assert cut([], 3) == []


def test_what_is_left_goes_before_what_waits() -> None:
    crew = Told(1, [2])
    cells = [found.cell for found in fan_out(Design(2, 3, 1).sessions(), crew)]
    assert cells == list(Design(2, 3, 1).cells())
    assert [session.prompts for session in crew.started] == [(0, 1, 2), (2,), (0, 1, 2)]


def test_a_session_that_gets_nowhere_is_given_up() -> None:
    crew = Told(1, [1, *([0] * TRIES)])
    with pytest.raises(PowerError) as failed:
        list(fan_out(Design(1, 3, 1).sessions(), crew))
    assert [d.code for d in failed.value.diagnostics] == ["P875", "P517"]
    assert failed.value.diagnostics[0].place == "round 1, arm 1, prompt 2"
    assert failed.value.exit_code is ExitCode.ENGINE_FAILED
    assert len(crew.started) == 1 + TRIES


def test_what_fails_for_a_reason_is_not_run_again() -> None:
    crew = Told(1, [1], REFUSED)
    with pytest.raises(PowerError) as failed:
        list(fan_out(Design(1, 3, 1).sessions(), crew))
    assert failed.value is REFUSED
    assert len(crew.started) == 1


def test_a_fault_of_ours_is_not_run_again() -> None:
    with pytest.raises(ZeroDivisionError):
        list(fan_out(Design(1, 3, 1).sessions(), Told(1, [1], ZeroDivisionError())))


def test_a_death_behind_the_last_sample_costs_nothing() -> None:
    crew = Told(1, [3])
    assert len(list(fan_out(Design(1, 3, 1).sessions(), crew))) == 3
    assert len(crew.started) == 1


def test_no_sessions_are_done_at_once() -> None:
    assert list(fan_out([], Told(1, []))) == []


def test_an_end_without_its_samples_is_no_end() -> None:
    roster = Roster([Session(1, 0, (0, 1))])
    session = roster.take()
    assert session is not None
    roster.deliver(Cell(1, 0, 0))
    with pytest.raises(RuntimeError, match="without 1 of its samples"):
        roster.end(session, None)


def test_an_error_travels_whole() -> None:
    error = PowerError(
        (Diagnostic("P231", "a", (Span("f", 1, 2),), hint="b"), KILLED.diagnostics[0])
    )
    back = pickle.loads(pickle.dumps(error))
    assert back.diagnostics == error.diagnostics
    assert str(back) == str(error)


def test_more_threads_than_cpus_are_said_once() -> None:
    plan = scripted_plan("off")
    assert crowding([plan], 1) == ()
    (warning,) = crowding([plan, plan], 10_000)
    assert (warning.code, warning.severity) == ("P876", "warning")
    assert warning.message.startswith("10000 workers of 1 threads share ")


def test_workers_share_the_cpus_that_a_plan_pins() -> None:
    plan = scripted_plan("off")
    pinned = plan.model_copy(
        update={"host": plan.host.model_copy(update={"cpu_affinity": [0, 1], "threads": 2})}
    )
    (warning,) = crowding([pinned], 2)
    assert warning.message == "2 workers of 2 threads share 2 CPUs: each gets slower"
