"""The steps at which a process changes files, and a fault at one of them.

Tests own this: nothing in `power/` knows of it. `inject` replaces functions of `os`
in a process that is about to run one command, so that the step with a chosen number
meets its fault *before* it is done. Only steps that write count: opening for
writing, writing to a file, syncing, naming, removing.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Callable
from typing import Any

FAULTS: dict[str, Callable[[], None]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "term": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
    "full": lambda: _raise(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
    "broken": lambda: _raise(OSError(errno.EIO, os.strerror(errno.EIO))),
    "memory": lambda: _raise(MemoryError()),
}
_STEPS = (
    *("open", "write", "fsync", "replace", "rename", "link", "unlink", "mkdir"),
    *("ftruncate", "fchmod"),
)
_FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def _raise(error: BaseException) -> None:
    raise error


def _counts(name: str, arguments: tuple[Any, ...]) -> bool:
    if name == "open":
        return bool(arguments[1] & _FOR_WRITING) if len(arguments) > 1 else False
    if name == "write":
        return stat.S_ISREG(os.fstat(arguments[0]).st_mode)
    return True


def inject(fault: str, number: int) -> Callable[[], int]:
    """Let the step `number` (from 0) meet `fault`; returns how many steps there were so far."""
    seen = 0

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal seen
            if _counts(name, arguments):
                here, seen = seen, seen + 1
                if here == number:
                    FAULTS[fault]()
            return real(*arguments, **options)

        setattr(os, name, step)

    for name in _STEPS:
        wrap(name)
    return lambda: seen


def inject_in_talk(fault: str, number: int) -> None:
    """Let the message `number` (from 0) from the worker meet `fault` before it is taken in.

    Besides those of files there is `worker`: the worker is killed.
    """
    from power.runner.process import WorkerProcess

    real = WorkerProcess.receive
    seen = 0

    def receive(worker: WorkerProcess, until: float | None = None) -> object:
        nonlocal seen
        here, seen = seen, seen + 1
        if here == number:
            if fault == "worker":
                os.kill(worker.pid, signal.SIGKILL)
            else:
                FAULTS[fault]()
        return real(worker, until)

    WorkerProcess.receive = receive  # type: ignore[method-assign, assignment]
