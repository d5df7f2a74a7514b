"""Sessions handed to several workers, whose deaths lose no sample and repeat none."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from power.diagnostics import Diagnostic, ExitCode, PowerError
from power.evidence.design import Cell, Session
from power.evidence.executor import Finished, Runs
from power.plan.model import Plan
from power.runner.host import resolve_threads

TRIES = 3
"""How often a session may fail without finishing a sample in between."""

_PIECES = 2  # for each worker: more of them wait less for the last one, and load more often


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that a worker is done with. error: why it did not come to its end."""

    session: Session
    error: BaseException | None = None


class Crew(Protocol):
    """Workers that run sessions at the same time."""

    def free(self) -> bool:
        """Whether a session can be started now."""
        ...

    def start(self, session: Session) -> None:
        """Let a free worker run `session`."""
        ...

    def wait(self) -> Finished | Ended | None:
        """What comes next; None: more workers may be free.

        A session's samples come before its end, which comes once.
        """
        ...


def fan_out(sessions: Iterable[Session], crew: Crew) -> Runs:
    """Run `sessions` on `crew`: every sample once, in the order in which they finish.

    A session whose engine or worker failed is run again without the samples that it
    finished. Raises what a session raised otherwise, and P875 for one that failed
    `TRIES` times without finishing a sample.
    """
    roster = Roster(sessions)
    while roster.unfinished:
        while crew.free() and (session := roster.take()) is not None:
            crew.start(session)
        match crew.wait():
            case Finished() as finished if roster.deliver(finished.cell):
                yield finished
            case Ended(session, error):
                roster.end(session, error)


class Roster:
    """Which sessions wait, which run, and which samples are there. Pure."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        self._waiting = deque((session, 0) for session in sessions)
        self._running: dict[Session, int] = {}  # -> failures in a row
        self._delivered: set[Cell] = set()

    @property
    def unfinished(self) -> bool:
        """Whether any session waits or runs."""
        return bool(self._waiting or self._running)

    def take(self) -> Session | None:
        """The next session to start; None when none waits."""
        if not self._waiting:
            return None
        session, failures = self._waiting.popleft()
        self._running[session] = failures
        return session

    def deliver(self, cell: Cell) -> bool:
        """Take a sample in; False when it was there."""
        new = cell not in self._delivered
        self._delivered.add(cell)
        return new

    def end(self, session: Session, error: BaseException | None) -> None:
        """Take a session off; what a failure left of it waits again, before all others.

        Raises `error` where running it again would not help, P875 where it did not.
        """
        failures = self._running.pop(session) + 1
        left = tuple(cell.prompt for cell in session.cells() if cell not in self._delivered)
        if error is None:
            if left:
                raise RuntimeError(f"{session} ended without {len(left)} of its samples")
            return
        if not isinstance(error, PowerError) or error.exit_code is not ExitCode.ENGINE_FAILED:
            raise error
        if not left:
            return
        if len(left) < len(session.prompts):
            failures = 0
        if failures >= TRIES:
            raise PowerError((_given_up(session, failures), *error.diagnostics)) from error
        self._waiting.appendleft((replace(session, prompts=left), failures))


def _given_up(session: Session, failures: int) -> Diagnostic:
    return Diagnostic(
        "P875",
        f"a session failed {failures} times without finishing a sample",
        place=f"round {session.round}, arm {session.arm + 1}, prompt {session.prompts[0] + 1}",
        hint="its last failure is the next error: mend that, and run the same command again",
    )


def cut(sessions: Iterable[Session], workers: int) -> list[Session]:
    """Sessions for so many workers: in pieces, where there are too few to keep all busy.

    A piece is run as a session is, on a fresh engine; outputs do not depend on it.
    """
    whole = list(sessions)
    pieces = -(-_PIECES * workers // max(1, len(whole)))
    return [piece for session in whole for piece in _pieces(session, pieces)]


def _pieces(session: Session, count: int) -> Iterable[Session]:
    size = -(-len(session.prompts) // count)
    for start in range(0, len(session.prompts), size):
        yield replace(session, prompts=session.prompts[start : start + size])


def crowding(plans: Sequence[Plan], workers: int) -> tuple[Diagnostic, ...]:
    """A warning (P876) where so many workers have more threads than CPUs that they may use."""
    needs = [
        (resolve_threads(plan.host), len(plan.host.cpu_affinity or os.sched_getaffinity(0)))
        for plan in plans
    ]
    crowded = [(threads, cpus) for threads, cpus in needs if workers * threads > cpus]
    if not crowded:
        return ()
    threads, cpus = max(crowded, key=lambda need: need[0] / need[1])
    return (
        Diagnostic(
            "P876",
            f"{workers} workers of {threads} threads share {cpus} CPUs: each gets slower",
            severity="warning",
        ),
    )
