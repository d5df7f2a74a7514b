"""Who runs the sessions of a bench: here and now, one after another; others fan out.

An executor is given sessions and hands back finished runs, each once, as they
come. It measures nothing and signs nothing: records travel to the one process
that holds the key.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from power.evidence.design import Cell, Session
from power.runner import batch
from power.runner.prompts import Prompt
from power.runner.types import Request, RunRecord

Opener = Callable[[], AbstractContextManager[tuple[batch.Generator, batch.Chat]]]
"""Starts a fresh worker with an arm's plan; what it gives renders chat messages too."""


@dataclass(frozen=True, slots=True)
class Lane:
    """How one arm is run: a fresh worker for each session."""

    open: Opener
    control: bool


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
    """Runs one session after another, in this process: the one way to time anything."""

    lanes: Sequence[Lane]
    prompts: Sequence[Prompt]
    warmup: int

    def run(self, sessions: Iterable[Session]) -> Runs:
        """As `Executor.run`, in the order of the sessions."""
        for session in sessions:
            yield from perform(session, self.lanes[session.arm], self.prompts, self.warmup)


def perform(
    session: Session,
    lane: Lane,
    prompts: Sequence[Prompt] | Mapping[int, Prompt],
    warmup: int,
) -> Runs:
    """Run one session on a fresh worker, after `warmup` runs of its first prompt.

    prompts: by the numbers of the session.
    """
    with lane.open() as (runner, chat):
        asked = {p: _request(prompts[p], chat, control=lane.control) for p in session.prompts}
        for _ in range(warmup):
            _run(runner, asked[session.prompts[0]])
        for cell in session.cells():
            request = asked[cell.prompt]
            yield Finished(cell, request, _run(runner, request))


def _request(prompt: Prompt, chat: batch.Chat, *, control: bool) -> Request:
    return prompt.request(batch.rendered_line(prompt, chat), control=control)


def _run(runner: batch.Generator, request: Request) -> RunRecord:
    record = runner.generate(request)
    if record.finish == "cancelled":
        raise KeyboardInterrupt
    return record
