"""SHA-256 of open files, one thread a file.

`hashlib` and `preadv` release the interpreter lock, so threads run at the speed
of the cores. Reading uses explicit offsets: the shared file position stays put.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from power.artifact.opened import OpenFile
from power.diagnostics import fail

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all), from any thread but never from two at once."""

BLOCK = 1 << 20
"""Bytes of one read: large enough to amortise the call, small enough to stay in cache."""

_T = TypeVar("_T")


class Meter:
    """Bytes done over all threads, and the wish to stop."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()
        self.stop = False

    def advance(self, count: int) -> None:
        """Report `count` more bytes."""
        if self._progress is None:
            return
        with self._lock:
            self._done += count
            self._progress(self._done, self._total)


def hash_files(files: Sequence[OpenFile], progress: Progress | None = None) -> tuple[str, ...]:
    """SHA-256 of every file, lower-case hex, in order.

    Raises PowerError P230 when a file changes or cannot be read meanwhile.
    """
    return each_file(files, _hash, progress)


def each_file(
    files: Sequence[OpenFile], work: Callable[[OpenFile, Meter], _T], progress: Progress | None
) -> tuple[_T, ...]:
    """`work` on every file, at most one thread a core; the first failure stops the others."""
    meter = Meter(sum(file.size for file in files), progress)
    workers = max(1, min(len(files), _cores()))
    with ThreadPoolExecutor(workers, thread_name_prefix="power-hash") as pool:
        try:
            return tuple(pool.map(lambda file: work(file, meter), files))
        except BaseException:
            meter.stop = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _cores() -> int:
    """Cores this process may use, where the system can say so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _hash(file: OpenFile, meter: Meter) -> str:
    digest = digest_of(file, meter)
    file.check_unchanged()
    return digest


def digest_of(
    file: OpenFile, meter: Meter, take: Callable[[memoryview], None] | None = None
) -> str:
    """SHA-256 (hex) of `file`, read once; `take` gets each block, valid until it returns.

    When `meter` stops it is a digest of no use to anybody.
    """
    digest = hashlib.sha256()
    block = memoryview(bytearray(min(BLOCK, max(1, file.size))))
    done = 0
    while done < file.size and not meter.stop:
        part = block[: read_into(file, block, done)]
        digest.update(part)
        if take is not None:
            take(part)
        done += len(part)
        meter.advance(len(part))
    return digest.hexdigest()


def read_into(file: OpenFile, buffer: memoryview, offset: int) -> int:
    """Fill the beginning of `buffer` from `offset`; the count, at least 1. Raises P230."""
    try:
        count = os.preadv(file.fd, [buffer[: file.size - offset]], offset)
    except OSError as error:
        fail(
            "P230",
            f"cannot read `{file.name}`: {error.strerror}",
            place=f"{file.name} at byte {offset}",
            hint="check the disk or the network mount that holds the file",
        )
    if not count:
        fail(
            "P230",
            f"`{file.name}` became shorter while it was read",
            expected=f"{file.size} bytes",
            found=f"{offset} bytes",
            hint="wait until whatever writes the file is done, then try again",
        )
    return count


def check_digest(name: str, expected: str, found: str) -> None:
    """Raise PowerError P231 unless the two SHA-256 (hex, any case) are the same."""
    if expected.lower() != found.lower():
        fail(
            "P231",
            f"`{name}` is not the file that was declared: its sha256 differs",
            expected=expected.lower(),
            found=found.lower(),
            hint="fetch the declared file again, or declare the new one if the change is meant",
        )
