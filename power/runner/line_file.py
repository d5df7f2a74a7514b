"""A file of JSON lines that work appends to, and that goes on after a kill at any byte.

A line is there whole or not at all: it is written and synced before the next
piece of work starts, and what a kill left of a last one is cut off.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

from power.artifact.closing import Closing
from power.diagnostics import Span, fail

_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Words:
    """How a file is spoken of when it is refused, and under which codes.

    option: what the user gives to choose another file.
    """

    file: str
    work: str
    option: str
    damaged: str
    unwritable: str


class LineFile(Closing):
    """One such file, locked while it is open; every line begins with its `schema`.

    Entering reads what is there and gives each line to `take`, which may refuse
    it by raising; then a torn last line is cut off. Refused here as well: a line
    that is not one of these (`words.damaged`), a file that cannot be written or
    that another process writes (`words.unwritable`). A refused file is left as it was.
    """

    def __init__(
        self, path: Path, schema: str, words: Words, take: Callable[[int, dict[str, Any]], None]
    ) -> None:
        self.path = path
        self._schema = schema
        self._start = f'{{"schema":"{schema}",'.encode()
        self._words = words
        self._take = take
        self._fd = -1
        self._end = 0

    def __enter__(self) -> Self:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
            self._fd = os.open(self.path, flags, 0o644)
            try:
                self._take_over()
            except BaseException:
                os.close(self._fd)
                raise
        except OSError as error:
            self._refuse(f"cannot be written: {error.strerror}")
        return self

    def close(self) -> None:
        """Give the file free."""
        os.close(self._fd)

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line and see it on the disk; raises PowerError `words.unwritable`."""
        text = json.dumps({"schema": self._schema, **line}, separators=(",", ":"))
        data = memoryview(text.encode("ascii") + b"\n")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
            os.fsync(self._fd)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, self._end)
            self._refuse(f"cannot be written: {error.strerror}")
        self._end = os.lseek(self._fd, 0, os.SEEK_CUR)

    def refuse_damaged(self, line: int) -> NoReturn:
        """Say that this line is not one that was written here."""
        fail(
            self._words.damaged,
            f"line {line} of the {self._words.file} is not one that a {self._words.work} wrote",
            spans=(Span(str(self.path), line, 1),),
            hint=f"give another `{self._words.option}`; this file was left as it is",
        )

    def _take_over(self) -> None:
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self._refuse("is no regular file")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._refuse(f"is being written by another {self._words.work}")
        data = bytearray()
        while part := os.pread(self._fd, _READ, len(data)):
            data += part
        *lines, torn = bytes(data).split(b"\n")
        for number, line in enumerate(lines, 1):
            self._take(number, self._parsed(number, line))
        if torn:
            self._check_torn(len(lines) + 1, torn)
            os.ftruncate(self._fd, len(data) - len(torn))
            os.fsync(self._fd)
        self._end = len(data) - len(torn)
        _sync_folder(self.path.parent)

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line) if line.startswith(self._start) else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self.refuse_damaged(number)
        return found

    def _check_torn(self, number: int, torn: bytes) -> None:
        """Only what a kill can have left is cut off: the start of a line, or a hole of zeros."""
        begun = torn.startswith(self._start) or self._start.startswith(torn)
        if not (begun or not torn.strip(b"\0")):
            self.refuse_damaged(number)

    def _refuse(self, why: str) -> NoReturn:
        fail(
            self._words.unwritable,
            f"the {self._words.file} {why}",
            place=str(self.path),
            hint="check the path, its permissions and the space, "
            f"or give another `{self._words.option}`",
        )


def _sync_folder(folder: Path) -> None:
    """Make a new file's name as lasting as its lines."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
