"""The file of answers that a batch writes: appended line by line, and gone on with after a kill.

A line is there whole or not at all: it is written and synced before the next
request starts, and what a kill left of a last one is cut off. The lines are
always the answers to the first prompts, in order.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from power.diagnostics import Span, fail
from power.runner.prompts import Prompt

SCHEMA = "power.batch.v1"
_START = f'{{"schema":"{SCHEMA}",'.encode()
_READ = 1 << 20


class Answers:
    """The answers file of one batch, locked while it is open.

    Entering reads what an earlier run has finished (`finished` lines), cuts off
    a torn last line, and refuses (P571) lines that answer other prompts or come
    from another plan, (P572) lines that are damaged, (P573) a file that cannot
    be written or that another process writes. A refused file is left as it was.
    """

    def __init__(self, path: Path, prompts: Sequence[Prompt], binding: Mapping[str, Any]) -> None:
        self.finished = 0
        self._path = path
        self._prompts = prompts
        self._binding = binding  # what every line has to hold: the plan's digest, control or not
        self._fd = -1
        self._end = 0

    def __enter__(self) -> Self:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
            self._fd = os.open(self._path, flags, 0o644)
            try:
                self._take_over()
            except BaseException:
                os.close(self._fd)
                raise
        except OSError as error:
            self._refuse(f"cannot be written: {error.strerror}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def append(self, prompt: Prompt, answer: Mapping[str, Any]) -> None:
        """Write the answer to the next prompt and see it on the disk. Raises PowerError P573."""
        line = {"schema": SCHEMA, "id": prompt.id, "request_sha256": prompt.sha256}
        text = json.dumps({**line, **self._binding, **answer}, separators=(",", ":"))
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
        self.finished += 1

    def _take_over(self) -> None:
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self._refuse("is no regular file")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._refuse("is being written by another batch")
        data = bytearray()
        while part := os.pread(self._fd, _READ, len(data)):
            data += part
        *lines, torn = bytes(data).split(b"\n")
        for line in lines:
            self._check(line)
            self.finished += 1
        if torn:
            self._check_torn(torn)
            os.ftruncate(self._fd, len(data) - len(torn))
            os.fsync(self._fd)
        self._end = len(data) - len(torn)
        _sync_folder(self._path.parent)

    def _check(self, line: bytes) -> None:
        """Refuse a line that is not the answer to the next prompt under this plan."""
        number = self.finished + 1
        try:
            found = json.loads(line) if line.startswith(_START) else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self._refuse_damaged(number)
        if self.finished >= len(self._prompts):
            self._refuse_foreign(number, "answers no prompt", f"{len(self._prompts)} lines", None)
        prompt = self._prompts[self.finished]
        expected = {"id": prompt.id, "request_sha256": prompt.sha256, **self._binding}
        for key, value in expected.items():
            if found.get(key) != value:
                self._refuse_foreign(number, f"has another `{key}`", value, found.get(key))
        if not _fits_digest(found):
            self._refuse_damaged(number)

    def _check_torn(self, torn: bytes) -> None:
        """Only what a kill can have left is cut off: the start of a line, or a hole of zeros."""
        if not (torn.startswith(_START) or _START.startswith(torn) or not torn.strip(b"\0")):
            self._refuse_damaged(self.finished + 1)

    def _refuse_foreign(self, line: int, how: str, expected: object, found: object) -> NoReturn:
        fail(
            "P571",
            f"the answers file belongs to another batch: line {line} {how}",
            spans=(Span(str(self._path), line, 1),),
            expected=expected,
            found=found,
            hint="give another `--out`, or the prompts and the plan that this file began with",
        )

    def _refuse_damaged(self, line: int) -> NoReturn:
        fail(
            "P572",
            f"line {line} of the answers file is not one that a batch wrote",
            spans=(Span(str(self._path), line, 1),),
            hint="give another `--out`; this file was left as it is",
        )

    def _refuse(self, why: str) -> NoReturn:
        fail(
            "P573",
            f"the answers file {why}",
            place=str(self._path),
            hint="check the path, its permissions and the space, or give another `--out`",
        )


def _fits_digest(answer: Mapping[str, Any]) -> bool:
    """Whether the answer's text is the one that was digested, as far as text can tell.

    U+FFFD in it may stand for bytes that are no UTF-8, which only the digest knows.
    """
    text = answer.get("text")
    if not isinstance(text, str):
        return False
    if "\ufffd" in text:
        return True
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return bool(digest == answer.get("text_sha256"))


def _sync_folder(folder: Path) -> None:
    """Make a new file's name as lasting as its lines."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
