"""Several engine processes on this machine at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Lock

from power.artifact.closing import Closing
from power.evidence.design import Session
from power.evidence.executor import Finished, Lane, Runs, perform
from power.evidence.fan_out.roster import Ended, cut, fan_out
from power.evidence.workplace import LaneSpec, Workplace
from power.runner.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Processes:
    """Runs up to `workers` sessions at once, each on an engine process of its own.

    Every session has its own process in any case (`power.runner.process`), so here are
    only threads that follow them. They share the sealed artifacts: a model is in memory
    once, however many workers there are. Nothing that it runs can be timed.
    """

    lanes: Sequence[LaneSpec]
    prompts: Sequence[Prompt]
    warmup: int
    workers: int

    def run(self, sessions: Iterable[Session]) -> Runs:
        """As `Executor.run`, in the order in which samples finish."""
        with _Threads(self) as crew:
            yield from fan_out(cut(sessions, self.workers), crew)


class _Threads(Closing):
    """A thread a session; leaving ends every request that still runs, and waits for that."""

    def __init__(self, work: Processes) -> None:
        self._work = work
        self._stop = _Stop()
        self._place = Workplace(self._stop.guard)
        self._pool = ThreadPoolExecutor(work.workers, "session")
        self._events = SimpleQueue[Finished | Ended]()
        self._running = 0

    def free(self) -> bool:
        return self._running < self._work.workers

    def start(self, session: Session) -> None:
        self._running += 1
        self._pool.submit(self._follow, session)

    def wait(self) -> Finished | Ended:
        event = self._events.get()
        self._running -= isinstance(event, Ended)
        return event

    def _follow(self, session: Session) -> None:
        spec = self._work.lanes[session.arm]
        lane = Lane(partial(self._place.open, spec), spec.control)
        error: BaseException | None = None
        try:
            for finished in perform([(session, lane)], self._work.prompts, self._work.warmup):
                self._events.put(finished)
        except BaseException as found:  # noqa: BLE001 - raised again by whoever waits
            error = found
        self._events.put(Ended(session, error))

    def close(self) -> None:
        """End every request and wait for the threads."""
        self._stop.now()
        self._pool.shutdown(cancel_futures=True)
        self._place.close()


class _Stop:
    """Ends the requests of all threads, those too that begin later."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stopped = False
        self._cancels: list[Callable[[], None]] = []

    @contextmanager
    def guard(self, cancel: Callable[[], None]) -> Iterator[None]:
        with self._lock:
            self._cancels.append(cancel)
            if self._stopped:
                cancel()
        try:
            yield
        finally:
            with self._lock:
                self._cancels.remove(cancel)

    def now(self) -> None:
        with self._lock:
            self._stopped = True
            for cancel in self._cancels:
                cancel()
