"""The arms of a bench on this machine: plans checked, artifacts open, a fresh worker each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from power.artifact.closing import Closing
from power.cli.certificates import Backing
from power.cli.console import Verb
from power.cli.execution import Execution
from power.cli.signals import on_interrupt
from power.diagnostics import escape, fail
from power.evidence.bench import Arm
from power.evidence.derive import Locked
from power.evidence.executor import Lane
from power.evidence.journal import MAX_ARMS
from power.evidence.workplace import LaneSpec, Workplace
from power.plan.lock import dumps
from power.plan.model import Plan
from power.runner.batch import Chat
from power.runner.runner import Runner


class Lanes(Closing):
    """One arm for each plan, and one without a proposer where it is asked for, which comes first.

    `lanes` run here, one session at a time; `specs` open the same ones anywhere.
    A context manager (`Workplace`). Raises PowerError as `Execution`.
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
        self._place = Workplace(on_interrupt)
        self.arms: list[Arm] = []
        self.lanes: list[Lane] = []
        self.specs: list[LaneSpec] = []
        if len(locks) + control > MAX_ARMS:
            fail(
                "P704",
                "there are too many plans to time against each other",
                expected=f"at most {MAX_ARMS} arms, the control one of them",
                found=f"{len(locks) + control}",
                hint="leave some out, or run them in two benches",
            )
        executions = [(Execution(verb, lock, roots, backing), lock) for lock in locks]
        if control:
            alone = Execution(verb, locks[0], roots, backing, control=True)
            self._add("control", alone, locks[0], roots, control=True)
        for execution, lock in executions:
            name = "plan" if len(locks) == 1 else execution.plan.name
            self._add(name, execution, lock, roots, control=False)
            if self.arms[-1].name != name:
                verb.say(f"arm {self.arms[-1].name} is {escape(str(lock))}, whose name is taken")

    def _add(
        self, name: str, execution: Execution, lock: Path, roots: Sequence[Path], *, control: bool
    ) -> None:
        taken = {arm.name for arm in self.arms}
        unique, number = name, 2
        while unique in taken:
            unique, number = f"{name}-{number}", number + 1
        locked, certified = Locked(execution.plan, execution.plan_bytes), execution.certified
        spec = LaneSpec(
            plan=locked.data,
            lock=lock.absolute(),
            roots=tuple(root.absolute() for root in roots),
            control=control,
            certified=certified,
        )
        self.arms.append(
            Arm(unique, control, locked, None if certified is None else certified.data)
        )
        self.lanes.append(Lane(partial(self._place.open, spec), control, spec.loaded))
        self.specs.append(spec)

    def close(self) -> None:
        """Give the memory of artifacts back."""
        self._place.close()


@contextmanager
def open_plan(plan: Plan, place: Path, roots: Sequence[Path]) -> Iterator[tuple[Runner, Chat]]:
    """A fresh worker that has loaded the artifacts of `plan`, found beside `place` or in `roots`.

    Ctrl-C ends the running request at its last committed round.
    """
    lane = LaneSpec(dumps(plan).encode(), place, tuple(roots), control=False)
    with Workplace(on_interrupt) as workplace, workplace.open(lane) as opened:
        yield opened
