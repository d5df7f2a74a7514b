"""Who runs the sessions of a bench: here and now, one after another; others fan out.

An executor is given sessions and hands back finished runs, each once, as they
come. It measures nothing and signs nothing: records travel to the one process
that holds the key.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from power.evidence.design import Cell, Session
from power.runner import batch
from power.runner.prompts import Prompt
from power.runner.types import Request, RunRecord

Opener = Callable[[], AbstractContextManager[tuple[batch.Generator, batch.Chat]]]
"""Starts a fresh worker with an arm's plan; what it gives renders chat messages too."""


@dataclass(frozen=True, slots=True)
class Lane:
    """How one arm is run: with a fresh worker each round.

    worker: what the worker is loaded with; lanes of which it is the same can share one.
    """

    open: Opener
    control: bool
    worker: Hashable = None


@dataclass(frozen=True, slots=True)
class Finished:
    """One sample that ran to its end."""

    cell: Cell
    request: Request
    record: RunRecord


Runs = Generator[Finished, None, None]


class Executor(Protocol):
    """Runs sessions."""

    def run(self, sessions: Iterable[Session]) -> Runs:
        """Every sample of `sessions`, each exactly once; closing it ends what still runs.

        Raises what `Runner` raises, and KeyboardInterrupt when a run was cancelled.
        """
        ...


@dataclass(frozen=True, slots=True)
class InOrder:
    """Runs one session after another, in this process: the one way to time anything.

    Arms that one worker can run share it for a round, and take turns prompt by prompt:
    two processes with the same model can differ in speed by where their memory happens
    to lie, for as long as they live, and that is no property of an arm.
    """

    lanes: Sequence[Lane]
    prompts: Sequence[Prompt]
    warmup: int

    def run(self, sessions: Iterable[Session]) -> Runs:
        """As `Executor.run`, round by round."""
        for work in self._together(sessions):
            yield from perform(work, self.prompts, self.warmup)

    def _together(self, sessions: Iterable[Session]) -> Iterator[list[tuple[Session, Lane]]]:
        """The sessions of each round by the worker that they can share."""
        for _, in_round in groupby(sessions, key=lambda session: session.round):
            found: dict[Hashable, list[tuple[Session, Lane]]] = {}
            for session in in_round:
                lane = self.lanes[session.arm]
                own = session.arm if lane.worker is None else lane.worker
                found.setdefault(own, []).append((session, lane))
            yield from found.values()


def perform(
    work: Sequence[tuple[Session, Lane]],
    prompts: Sequence[Prompt] | Mapping[int, Prompt],
    warmup: int,
) -> Runs:
    """Run sessions on one fresh worker, prompt by prompt, after `warmup` runs of their first.

    prompts: by the numbers of the sessions.
    """
    # Where a plan and its control share a worker, the plan is what has to be certified.
    _, opener = min(work, key=lambda one: one[1].control)
    with opener.open() as (runner, chat):
        asked = {
            cell: _request(prompts[cell.prompt], chat, control=lane.control)
            for session, lane in work
            for cell in session.cells()
        }
        for _ in range(warmup):
            for session, _lane in work:
                _run(runner, asked[next(session.cells())])
        for cell in sorted(asked, key=lambda cell: cell.prompt):  # arms in the order of `work`
            yield Finished(cell, asked[cell], _run(runner, asked[cell]))


def _request(prompt: Prompt, chat: batch.Chat, *, control: bool) -> Request:
    return prompt.request(batch.rendered_line(prompt, chat), control=control)


def _run(runner: batch.Generator, request: Request) -> RunRecord:
    record = runner.generate(request)
    if record.finish == "cancelled":
        raise KeyboardInterrupt
    return record
