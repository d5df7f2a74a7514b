"""Sessions on the machines of a Ray cluster.

Ray is an optional extra (`power-spec[ray]`), imported when a cluster is asked for.
Actors open their lanes from `LaneSpec`s: what is signed with never leaves this process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import power
from power.artifact.closing import Closing
from power.artifact.locate import environment_roots
from power.diagnostics import Diagnostic, PowerError, fail, first_line
from power.evidence.design import Session
from power.evidence.executor import Finished, Lane, Runs, perform
from power.evidence.fan_out.cluster import joined
from power.evidence.fan_out.roster import TRIES, Ended, cut, fan_out
from power.evidence.workplace import LaneSpec, Workplace
from power.plan.lock import loads
from power.runner.host import resolve_threads
from power.runner.prompts import Prompt

PATIENCE_S = 120.0
"""How long no worker at all may be there, before a cluster is given up."""


@dataclass(frozen=True, slots=True)
class OverRay:
    """Runs up to `workers` sessions at once on a Ray cluster, each by an actor.

    address: of the cluster (`HOST:PORT`, or `auto` for one that this machine belongs
    to); `local` starts one here for the time of the run. An actor asks Ray for as many
    CPUs as a plan has threads, so that Ray puts no more on a machine than it has room
    for. Every machine needs the same Power and the artifacts, under the folders of the
    `LaneSpec`s or its own POWER_ARTIFACTS. Nothing that it runs can be timed.
    """

    lanes: Sequence[LaneSpec]
    prompts: Sequence[Prompt]
    warmup: int
    workers: int
    address: str
    patience_s: float = PATIENCE_S

    @property
    def threads(self) -> int:
        """CPUs of one actor: the most threads of any plan."""
        plans = (loads(lane.plan.decode(), str(lane.lock)) for lane in self.lanes)
        return max((resolve_threads(plan.host) for plan in plans), default=1)

    def run(self, sessions: Iterable[Session]) -> Runs:
        """As `Executor.run`, in the order in which samples finish.

        Raises PowerError besides: P870 Ray is not installed, P871 the cluster cannot be
        joined, P873 it starts no worker, P874 a machine has another Power, P875.
        """
        left = cut(sessions, self.workers)
        if not left:
            return
        workers = min(self.workers, len(left))
        work = replace(self, workers=workers)
        with joined(self.address, workers * self.threads) as ray, _Actors(ray, work) as crew:
            yield from fan_out(left, crew)


class RayWorker:
    """What an actor is: lanes opened on its machine, records handed back as they come."""

    def __init__(self, lanes: Sequence[LaneSpec], warmup: int) -> None:
        here = environment_roots()
        self._lanes = [replace(lane, roots=(*lane.roots, *here)) for lane in lanes]
        self._warmup = warmup
        self._place = Workplace(lambda _cancel: nullcontext())  # whoever cancels it kills it

    def version(self) -> str:
        """Of the Power that is installed on its machine."""
        return power.__version__

    def perform(
        self, session: Session, prompts: Mapping[int, Prompt]
    ) -> Iterator[Finished | Ended]:
        """Every sample of `session`, then its end."""
        spec = self._lanes[session.arm]
        lane = Lane(lambda: self._place.open(spec), spec.control)
        error = None
        try:
            yield from perform([(session, lane)], prompts, self._warmup)
        except PowerError as found:
            error = found
        yield Ended(session, error)


class _Actors(Closing):
    """The actors of one run; leaving ends them, and with them every engine that they started."""

    def __init__(self, ray: Any, work: OverRay) -> None:
        self._ray = ray
        self._work = work
        self._class = ray.remote(RayWorker)
        self._coming: dict[Any, Any] = {}  # what says that it is there -> actor
        self._idle = deque[Any]()
        self._at_work: dict[Any, tuple[Any, Session]] = {}  # stream -> actor, its session
        self._failures = 0  # of starting an actor, in a row

    def free(self) -> bool:
        return bool(self._idle)

    def start(self, session: Session) -> None:
        actor = self._idle.popleft()
        prompts = {number: self._work.prompts[number] for number in session.prompts}
        stream = actor.perform.options(num_returns="streaming").remote(session, prompts)
        self._at_work[stream] = (actor, session)

    def wait(self) -> Finished | Ended | None:
        patience = None if self._at_work else self._work.patience_s
        waiting = [*self._at_work, *self._coming]
        ready, _ = self._ray.wait(waiting, num_returns=1, timeout=patience)
        if not ready:
            self._fail_placing(f"none within {self._work.patience_s:g} s")
        if ready[0] in self._coming:
            self._arrived(ready[0])
            return None
        return self._next(ready[0])

    def _next(self, stream: Any) -> Finished | Ended:
        actor, session = self._at_work[stream]
        try:
            event: Finished | Ended = self._ray.get(next(stream))
        except self._ray.exceptions.RayTaskError:
            raise  # a fault of ours: the session's own errors are in its end
        except (self._ray.exceptions.RayError, StopIteration) as error:
            del self._at_work[stream]
            self._ray.kill(actor)
            self._add()
            return Ended(session, _lost(session, error))
        if isinstance(event, Ended):
            del self._at_work[stream]
            self._idle.append(actor)
        return event

    def _add(self) -> None:
        actor = self._class.options(num_cpus=self._work.threads).remote(
            self._work.lanes, self._work.warmup
        )
        self._coming[actor.version.remote()] = actor

    def _arrived(self, ready: Any) -> None:
        """Take an actor in, or start another one in its place."""
        actor = self._coming.pop(ready)
        try:
            version = self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            self._failures += 1
            if self._failures >= TRIES:
                self._fail_placing(first_line(error))
            self._add()
            return
        if version != power.__version__:
            fail(
                "P874",
                "a machine of the cluster has another version of Power",
                expected=power.__version__,
                found=version,
                hint="install the same Power on every machine of the cluster",
            )
        self._failures = 0
        self._idle.append(actor)

    def _fail_placing(self, found: str) -> None:
        fail(
            "P873",
            "the Ray cluster starts no worker",
            expected=f"a machine with {self._work.threads} free CPUs, Power and its engine",
            found=found,
            hint="`ray status` shows what is free; lower `host.threads`, or add machines",
        )

    def __enter__(self) -> Self:
        for _ in range(self._work.workers):
            self._add()
        return self

    def close(self) -> None:
        """End every worker."""
        busy = (actor for actor, _ in self._at_work.values())
        for actor in (*self._idle, *self._coming.values(), *busy):
            self._ray.kill(actor)


def _lost(session: Session, error: BaseException) -> PowerError:
    return PowerError(
        (
            Diagnostic(
                "P872",
                "a worker of the Ray cluster was lost",
                place=f"round {session.round}, arm {session.arm + 1}",
                found=first_line(error),
                hint="look at its machine: memory, and Ray's log of the worker",
            ),
        )
    )
