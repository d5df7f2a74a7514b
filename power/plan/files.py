"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from power.diagnostics import fail


def write_atomic(path: Path, data: bytes, *, overwrite: bool, mode: int = 0o644) -> None:
    """Write `data` to `path` so that a crash leaves the old file or the new one.

    A temporary file in the same folder is written and synced, then takes the
    name in one step; the folder is synced too. A symbolic link at `path` is
    replaced, not followed. `mode` holds whatever the umask.

    Raises PowerError: P440 `path` exists and `overwrite` is False, P441 the
    operating system refused.
    """
    temporary = path.parent / f".power-{secrets.token_hex(8)}.tmp"
    try:
        try:
            _write_new(temporary, data, mode)
            if overwrite:
                os.replace(temporary, path)  # noqa: PTH105 - the call whose atomicity we rely on
            else:
                os.link(temporary, path, follow_symlinks=False)  # fails when `path` exists
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
        _sync_folder(path.parent)
    except FileExistsError:
        _refuse_existing(path)
    except OSError as error:
        fail(
            "P441",
            f"the file cannot be written: {error.strerror}",
            place=str(path),
            hint="check the folder, its permissions and the space left",
        )


def check_new(path: Path) -> None:
    """Refuse (P440, P441) a place where `write_atomic` could not write a new file.

    For work that is only worth doing when its result can be kept.
    """
    if os.path.lexists(path):
        _refuse_existing(path)
    if not path.parent.is_dir():
        fail(
            "P441",
            "the file cannot be written: its folder is not there",
            place=str(path),
            hint="make the folder, or choose another place",
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        fail(
            "P441",
            "the file cannot be written: its folder may not be written to",
            place=str(path),
            hint="choose a folder that is yours",
        )


def _refuse_existing(path: Path) -> NoReturn:
    fail(
        "P440",
        "the file exists and is not overwritten",
        place=str(path),
        hint="choose another name, or move the file away",
    )


def _write_new(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
