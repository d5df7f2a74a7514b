"""Files that hold a secret, and the folders for them: refused when others can reach them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from power.diagnostics import fail
from power.manifest.files import irregular

SECRET_BYTES = 64 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_private(
    path: Path, what: str, is_secret: Callable[[bytes], bool] = lambda _: True
) -> bytes:
    """The bytes of a secret file, at most 64 KiB; P602 when not private, P605 when unreadable.

    The checks are on the open file, so that what was checked is what is read:
    a regular file, not reached by a symlink, owned by the effective user, with
    no permission for group or others. They hold for root too, who could read it
    anyway. `what` names the file's role in messages ("private key"). A file whose
    bytes hold no secret (`is_secret`) may be anybody's: its reader says what it is.
    """
    # O_NONBLOCK: opening a FIFO must not wait for a writer.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            fail(
                "P602",
                f"the {what} `{path}` is a symlink",
                expected="a regular file",
                found=f"a symlink to `{path.readlink()}`",
                hint="give the path of the file itself",
            )
        fail(
            "P605",
            f"cannot read the {what} `{path}`: {error.strerror}",
            hint="check the path and who owns the file",
        )
    try:
        status = os.fstat(fd)
        _check_regular(path, what, status)
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(SECRET_BYTES + 1)
    finally:
        os.close(fd)
    if is_secret(data):
        _check_private(path, what, status)
    if len(data) > SECRET_BYTES:
        fail(
            "P605",
            f"the {what} `{path}` is larger than {SECRET_BYTES} bytes",
            hint="name the file itself",
        )
    return data


def _check_regular(path: Path, what: str, status: os.stat_result) -> None:
    kind = irregular(status.st_mode)
    if kind is not None:
        fail(
            "P602",
            f"the {what} `{path}` is not a regular file",
            expected="a regular file",
            found=kind,
            hint="give the path of the file itself",
        )


def _check_private(path: Path, what: str, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        fail(
            "P602",
            f"the {what} `{path}` belongs to another user",
            expected=f"owner uid {os.geteuid()}",
            found=f"owner uid {status.st_uid}",
            hint="use a key of your own: `power key new`",
        )
    if status.st_mode & _OTHERS:
        fail(
            "P602",
            f"the {what} `{path}` can be reached by others",
            expected="mode 0600 or 0400",
            found=f"mode {stat.S_IMODE(status.st_mode):04o}",
            hint=f"if nobody else has read it, run `chmod 600 {path}`; else make a new one",
        )


def make_folder(path: Path, mode: int = 0o755) -> None:
    """Make the folder `path` and those above it where they are missing; P441 when refused."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        fail(
            "P441",
            f"cannot make the folder: {error.strerror}",
            place=str(path),
            hint="choose a writable folder",
        )
