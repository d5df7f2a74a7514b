"""Reading a small file that a person named: a regular one, bounded, and never waited for."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

Why = Literal["absent", "refused", "irregular", "large"]

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class UnreadableError(Exception):
    """Why a file was not read: the kind of reason, and words that go behind "cannot be read: "."""

    def __init__(self, why: Why, words: str) -> None:
        super().__init__(words)
        self.why: Why = why


def read_regular(path: Path, limit: int) -> bytes:
    """The bytes of the regular file at `path`, at most `limit` of them.

    A pipe or a device could be waited for without end, or give other bytes each
    time: it is refused unread. What is checked is what is read, since both happen
    on the open file.
    Raises UnreadableError.
    """
    try:
        # O_NONBLOCK: opening a pipe must not wait for its writer.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _refused(error) from error
    try:
        kind = irregular(os.fstat(fd).st_mode)
        if kind is not None:
            raise UnreadableError("irregular", f"it is {kind}")
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise _refused(error) from error
    finally:
        os.close(fd)
    if len(data) > limit:
        raise UnreadableError("large", f"it is larger than {limit} bytes")
    return data


def irregular(mode: int) -> str | None:
    """What a file with this `st_mode` is, where that is not a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((name for test, name in _KINDS if test(mode)), "something else")


def _refused(error: OSError | ValueError) -> UnreadableError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    absent = isinstance(error, FileNotFoundError)
    return UnreadableError("absent" if absent else "refused", reason[:1].lower() + reason[1:])


def nearby(path: Path) -> str | None:
    """A hint for a file that is not there: one of a similar name, or that its folder is missing."""
    import difflib  # noqa: PLC0415 - only when something went wrong

    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f"there is no folder `{path.parent}` either"
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean `{path.parent / close[0]}`?" if close else None
