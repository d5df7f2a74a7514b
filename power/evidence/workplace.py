"""Opening lanes wherever their artifacts are: plans checked, files verified and sealed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from power.artifact.closing import Closing
from power.artifact.header import Header
from power.backends.registry import backend
from power.plan.host import check_engine, check_host, read_host
from power.plan.lock import loads
from power.plan.model import Plan
from power.plan.verified import VerifiedArtifacts, open_verified
from power.receipt.certified import Certified, check_place
from power.runner.batch import Chat
from power.runner.chat import render_for_header
from power.runner.runner import Runner

Guard = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""Given a runner's `cancel`: within the block, whoever is to end its request calls that."""

Loaded = tuple[bytes, Path, tuple[Path, ...]]


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """What it takes to open a lane anywhere: bytes and names, no key and nothing open.

    plan: the plan's file. lock: its absolute path; artifacts are found below its folder
    or `roots`. certified: the certificate that the plan's exactness rests on, believed
    by whoever signs.
    """

    plan: bytes
    lock: Path
    roots: tuple[Path, ...]
    control: bool
    certified: Certified | None = None

    @property
    def loaded(self) -> Loaded:
        """What a worker of it is loaded with: plan and artifacts, whoever proposes."""
        return self.plan, self.lock, self.roots


@dataclass
class _Kept:
    """Open artifacts and how many sessions use them now."""

    plan: Plan
    artifacts: VerifiedArtifacts
    users: int = 0


class Workplace(Closing):
    """Opens lanes for the sessions of one process, in any number of threads at once.

    A context manager, since artifacts stay open from one session to the next: their
    sealed copies are what every worker of the plan is given. Those that nobody uses are
    closed before another plan's are opened.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._lock = Lock()
        self._kept: dict[Loaded, _Kept] = {}

    @contextmanager
    def open(self, lane: LaneSpec) -> Iterator[tuple[Runner, Chat]]:
        """A fresh worker with the lane's plan, checked as `power run` checks it.

        Raises PowerError: P43x and P44x for the plan, the engine and the host, P2xx for
        artifacts, P635 where the certificate is of another engine or host, and what
        `Runner` raises.
        """
        with self._using(lane) as kept:
            runner = Runner(kept.plan, kept.artifacts)
            with self._guard(runner.cancel), runner:
                if lane.certified is not None:
                    check_place(lane.certified, runner.engine, runner.host)
                yield runner, chat_of(kept.artifacts.target_header)

    @contextmanager
    def _using(self, lane: LaneSpec) -> Iterator[_Kept]:
        key = lane.loaded
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                self._close_unused()
                kept = self._kept[key] = _opened(lane)
            kept.users += 1
        try:
            yield kept
        finally:
            with self._lock:
                kept.users -= 1

    def _close_unused(self) -> None:
        for key, kept in list(self._kept.items()):
            if not kept.users:
                self._kept.pop(key).artifacts.close()

    def close(self) -> None:
        """Give the memory of artifacts back that no session uses."""
        with self._lock:
            self._close_unused()


def _opened(lane: LaneSpec) -> _Kept:
    plan = loads(lane.plan.decode(), str(lane.lock))
    check_engine(plan, backend().describe())
    check_host(plan, read_host())
    return _Kept(plan, open_verified(plan, lane.lock, lane.roots))


def chat_of(header: Header) -> Chat:
    """Renders messages with the template of a target."""
    return lambda messages: render_for_header(header, messages)
