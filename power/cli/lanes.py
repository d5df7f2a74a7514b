"""The arms of a bench on this machine: plans checked, artifacts open, a fresh worker each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from power.artifact.header import Header
from power.cli.certificates import Backing
from power.cli.console import Verb
from power.cli.execution import Execution
from power.cli.signals import on_interrupt
from power.evidence.bench import Arm
from power.evidence.derive import Locked
from power.evidence.executor import Lane
from power.plan.host import check_host, read_host
from power.plan.model import Plan
from power.plan.verified import VerifiedArtifacts, open_verified
from power.runner.batch import Chat, Generator
from power.runner.chat import render_for_header
from power.runner.runner import Runner


class Lanes:
    """One arm for each plan, and one without a proposer where it is asked for, which comes first.

    A context manager, since artifacts stay open from one session to the next of
    the same plan: their sealed copies are what every worker is given.
    Raises PowerError as `Execution`.
    """

    def __init__(
        self,
        verb: Verb,
        locks: Sequence[Path],
        roots: Sequence[Path],
        backing: Backing,
        *,
        control: bool,
    ) -> None:
        self._open: tuple[Execution, VerifiedArtifacts] | None = None
        self.arms: list[Arm] = []
        self.lanes: list[Lane] = []
        executions = [Execution(verb, lock, roots, backing) for lock in locks]
        if control:
            alone = Execution(verb, locks[0], roots, backing, control=True)
            self._add("control", alone, control=True)
        for execution in executions:
            name = "plan" if len(locks) == 1 else execution.plan.name
            self._add(name, execution, control=False)

    def _add(self, name: str, execution: Execution, *, control: bool) -> None:
        taken = {arm.name for arm in self.arms}
        unique, number = name, 2
        while unique in taken:
            unique, number = f"{name}-{number}", number + 1
        locked = Locked(execution.plan, execution.plan_bytes)
        certified = execution.certified
        certificate = None if certified is None else certified.data
        self.arms.append(Arm(unique, control, locked, certificate))
        self.lanes.append(Lane(lambda: self._start(execution), control))

    @contextmanager
    def _start(self, execution: Execution) -> Iterator[tuple[Generator, Chat]]:
        artifacts = self._artifacts(execution)
        with execution.loaded(artifacts) as runner:
            yield runner, chat_of(artifacts.target_header)

    def _artifacts(self, execution: Execution) -> VerifiedArtifacts:
        """Those that are open, when they are this plan's; else this plan's in their place."""
        if self._open is not None:
            before, artifacts = self._open
            if before.plan.lock == execution.plan.lock:
                return artifacts
            self.close()
        artifacts = execution.verified()
        self._open = (execution, artifacts)
        return artifacts

    def close(self) -> None:
        """Give the memory of open artifacts back."""
        if self._open is not None:
            self._open[1].close()
        self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@contextmanager
def open_plan(plan: Plan, place: Path, roots: Sequence[Path]) -> Iterator[tuple[Runner, Chat]]:
    """A fresh worker that has loaded the artifacts of `plan`, found beside `place` or in `roots`.

    Ctrl-C ends the running request at its last committed round.
    """
    check_host(plan, read_host())
    with open_verified(plan, place, roots) as artifacts:
        runner = Runner(plan, artifacts)
        with on_interrupt(runner.cancel), runner:
            yield runner, chat_of(artifacts.target_header)


def chat_of(header: Header) -> Chat:
    """Renders messages with the template of a target."""
    return lambda messages: render_for_header(header, messages)
