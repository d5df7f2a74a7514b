"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn

from power.diagnostics import fail

_NO_UNNAMED_FILES = {errno.EISDIR, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT}
"""What O_TMPFILE gives on a kernel or a file system that has no such files."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def write_atomic(path: Path, data: bytes, *, overwrite: bool, mode: int = 0o644) -> None:
    """Write `data` to `path` so that a crash leaves the old file or the new one.

    The bytes are synced before they get the name, in one step; the folder is
    synced too. A new file has no other name before, where the file system can
    do that, so that not even a kill leaves anything behind. A symbolic link at
    `path` is replaced, not followed. `mode` holds whatever the umask.

    Raises PowerError: P440 `path` exists and `overwrite` is False, P441 the
    operating system refused.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if overwrite or not _link_unnamed(folder, path.name, data, mode):
                _write_named(path, data, mode, overwrite=overwrite)
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        _refuse_existing(path)
    except OSError as error:
        _refuse_unwritable(path, error)


def write_new(contents: Mapping[Path, bytes]) -> None:
    """Write files that are one result: all of them, or none where one cannot be written.

    Only a kill leaves some of them, each of them whole. Raises as `write_atomic`.
    """
    written: list[Path] = []
    try:
        for path, data in contents.items():
            write_atomic(path, data, overwrite=False)
            written.append(path)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _link_unnamed(folder: int, name: str, data: bytes, mode: int) -> bool:
    """Give a file without a name its name in `folder`; False where that cannot be done."""
    fd = _open_unnamed(folder)
    if fd is None:
        return False
    with os.fdopen(fd, "wb") as file:
        _fill(file, data, mode)
        source = f"/proc/self/fd/{fd}"
        if not os.path.lexists(source):
            return False
        os.link(source, name, dst_dir_fd=folder, follow_symlinks=True)  # fails when it exists
    return True


def _open_unnamed(folder: int) -> int | None:
    """A file without a name on the disk of `folder`; None where there are none."""
    unnamed = getattr(os, "O_TMPFILE", 0)  # Linux has it
    if not unnamed:
        return None
    try:
        return os.open(".", unnamed | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno in _NO_UNNAMED_FILES:
            return None
        raise


def _temporary_name() -> str:
    return f".power-{secrets.token_hex(8)}.tmp"


def _write_named(path: Path, data: bytes, mode: int, *, overwrite: bool) -> None:
    temporary = path.parent / _temporary_name()
    try:
        with os.fdopen(os.open(temporary, _NEW, 0o600), "wb") as file:
            _fill(file, data, mode)
        if overwrite:
            os.replace(temporary, path)  # noqa: PTH105 - the call whose atomicity we rely on
        else:
            os.link(temporary, path, follow_symlinks=False)  # fails when `path` exists
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _fill(file: IO[bytes], data: bytes, mode: int) -> None:
    file.write(data)
    file.flush()
    os.fchmod(file.fileno(), mode)
    os.fsync(file.fileno())


def replace_text(path: Path, text: str) -> None:
    """Put `text` in the place of what the file at `path` holds; its mode stays.

    Lone surrogates stand for bytes that were no UTF-8 (`surrogateescape`). Of a symbolic
    link, the file that it leads to is replaced. Raises PowerError P441.
    """
    real = Path(os.path.realpath(path))
    try:
        mode = real.stat().st_mode & 0o777
    except OSError as error:
        _refuse_unwritable(path, error)
    data = text.encode("utf-8", "surrogateescape")
    write_atomic(real, data, overwrite=True, mode=mode)


def append_text(path: Path, text: str) -> None:
    """Put `text` behind what the file at `path` holds; it is made when it is not there.

    For logs that others write to as well. Raises PowerError P441: it cannot be written.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        _refuse_unwritable(path, error)


def check_new(path: Path) -> None:
    """Refuse (P440, P441) a place where `write_atomic` could not write a new file.

    For work that is only worth doing when its result can be kept.
    """
    try:
        if _is_there(path):
            _refuse_existing(path)
        if not path.parent.is_dir():
            fail(
                "P441",
                "the file cannot be written: its folder is not there",
                place=str(path),
                hint="make the folder, or choose another place",
            )
        _try_out(path.parent)
    except OSError as error:
        fail(
            "P441",
            f"the file cannot be written: {error.strerror}",
            place=str(path),
            hint="choose a folder that is yours and takes files",
        )


def _try_out(folder: Path) -> None:
    """Make a file in `folder` and leave none: no permission bit tells of a read-only disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        made = _open_unnamed(fd)
        if made is not None:
            os.close(made)
            return
    finally:
        os.close(fd)
    temporary = folder / _temporary_name()
    os.close(os.open(temporary, _NEW, 0o600))
    temporary.unlink()


def _is_there(path: Path) -> bool:
    """Raises OSError where no file can have that name."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _refuse_unwritable(path: Path, error: OSError) -> NoReturn:
    fail(
        "P441",
        f"the file cannot be written: {error.strerror}",
        place=str(path),
        hint="check the folder, its permissions and the space left",
    )


def _refuse_existing(path: Path) -> NoReturn:
    fail(
        "P440",
        "the file exists and is not overwritten",
        place=str(path),
        hint="choose another name, or move the file away",
    )
