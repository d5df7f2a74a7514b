"""Copies of files that nobody can change any more: hashed while copied, then sealed.

A model that the engine maps from a file changes when the file is written to. A
sealed memory file (memfd_create(2), F_ADD_SEALS in fcntl(2)) cannot be written,
cut or grown by anyone, so the bytes that were hashed are the bytes that run.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from power.artifact.available import available_memory
from power.artifact.hashing import Meter, Progress, digest_of, each_file
from power.artifact.opened import OpenFile
from power.diagnostics import fail

_NAME_LIMIT = 200  # memfd_create(2) allows 249 bytes
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_HINT = "run on Linux 3.17 or later, outside a sandbox that forbids memfd_create"
_WAITS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A sealed memory file; the holder closes it. `sha256` is of exactly its `size` bytes."""

    name: str
    fd: int
    size: int
    sha256: str

    @property
    def path(self) -> str:
        """A path that opens it in this process, for code that wants a file name."""
        return f"/proc/self/fd/{self.fd}"

    def close(self) -> None:
        """Give the memory back, once no process maps or holds it."""
        os.close(self.fd)


def seal_files(
    files: Sequence[OpenFile], progress: Progress | None = None
) -> tuple[SealedFile, ...]:
    """Copy every file into a sealed memory file while hashing it, in one pass over its bytes.

    Raises PowerError P230 (a file changed or cannot be read), P233 (the system
    has no sealed memory files), P234 (not enough memory). Nothing stays open then.
    """
    if not hasattr(os, "memfd_create"):
        _unsupported("this system has no memfd_create")
    _check_memory(sum(file.size for file in files))
    sealed: list[SealedFile] = []

    def work(file: OpenFile, meter: Meter) -> SealedFile:
        out = _seal(file, meter)
        sealed.append(out)
        return out

    try:
        return each_file(files, work, progress)
    except BaseException:
        for file in sealed:
            file.close()
        raise


def _seal(file: OpenFile, meter: Meter) -> SealedFile:
    name = os.path.basename(file.name)[:_NAME_LIMIT]  # noqa: PTH119 - a name, not a path
    try:
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        _unsupported(str(error.strerror))
    try:
        digest = _copy(file, fd, meter)
        file.check_unchanged()
        close_to_writers(fd)
    except OSError as error:
        os.close(fd)
        if error.errno == errno.EFBIG:
            _too_large(file.size)
        if error.errno in {errno.ENOSPC, errno.ENOMEM, errno.EDQUOT}:
            _no_memory(file.size, None)
        _unsupported(str(error.strerror), "run it again" if error.errno == errno.EBUSY else _HINT)
    except BaseException:
        os.close(fd)
        raise
    return SealedFile(file.name, fd, file.size, digest)


def close_to_writers(fd: int) -> None:
    """Add every seal; raises OSError where that is impossible.

    EBUSY says that something in the kernel still holds a page, as compaction and memory
    monitors do for moments: the seal against writing waits for them 0.15 s, and here again.
    """
    for wait in (*_WAITS_S, None):
        try:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        except OSError as error:
            if error.errno != errno.EBUSY or wait is None:
                raise
            time.sleep(wait)
        else:
            return


def _copy(file: OpenFile, fd: int, meter: Meter) -> str:
    def write(block: memoryview) -> None:
        while block:
            block = block[os.write(fd, block) :]

    return digest_of(file, meter, write)


def _check_memory(needed: int) -> None:
    """Refuse early what would otherwise end in the kernel's out-of-memory killer."""
    free = available_memory()
    if free is not None and needed > free:
        _no_memory(needed, free)


def _no_memory(needed: int, free: int | None) -> NoReturn:
    fail(
        "P234",
        "there is not enough memory to hold the artifacts",
        expected=f"{needed} bytes",
        found="less" if free is None else f"{free} bytes available",
        hint="close other programs, raise the container's limit, or use a smaller quantisation",
    )


def _too_large(needed: int) -> NoReturn:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    fail(
        "P234",
        "the limit on the size of files does not let an artifact into memory",
        expected=f"{needed} bytes",
        found=f"{limit} bytes" if limit != resource.RLIM_INFINITY else "less",
        hint="raise it (`ulimit -f`): an artifact is held in a file that is only in memory",
    )


def _unsupported(reason: str, hint: str = _HINT) -> NoReturn:
    fail(
        "P233",
        "artifacts cannot be sealed in memory here, so what was hashed could change "
        "before it is loaded",
        expected="Linux with memfd_create and file seals",
        found=reason,
        hint=hint,
    )
