"""One open file for each shard of an artifact: what is hashed, parsed and loaded is the same file.

A name can be given to another file at any moment; an open file cannot.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from power.artifact.closing import Closing
from power.artifact.header import Header, read_header
from power.artifact.locate import cannot_open, check_regular, escapes, inside, locate
from power.artifact.shards import check_shard_names, merge, sibling_names
from power.diagnostics import fail


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file, open for reading.

    `name` is its path as the manifest writes it, `path` the resolved one, `size`
    in bytes and `changed_ns` (modification time) as they were at opening.
    """

    name: str
    path: Path
    fd: int
    size: int
    changed_ns: int

    def check_unchanged(self) -> None:
        """Raise PowerError P230 when the file was written to since it was opened."""
        now = os.fstat(self.fd)
        if (now.st_size, now.st_mtime_ns) != (self.size, self.changed_ns):
            fail(
                "P230",
                f"`{self.name}` changed while it was read",
                expected=f"{self.size} bytes, as at opening",
                found=f"{now.st_size} bytes, written to since",
                hint="wait until whatever writes the file is done, then try again",
            )


def open_file(path: str, roots: Sequence[Path]) -> OpenFile:
    """Locate and open one file; raises what `locate` raises.

    O_NONBLOCK keeps a FIFO that takes the file's place from blocking the open;
    the checks are made again on the open file, so that nothing can be swapped
    in between.
    """
    real = locate(path, roots)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        fd = os.open(real, flags)
    except OSError as error:
        cannot_open(path, error)
    try:
        info = os.fstat(fd)
        check_regular(path, info.st_mode)
        if not inside(_real_path(fd, real), [Path(os.path.realpath(root)) for root in roots]):
            escapes(path)
    except BaseException:
        os.close(fd)
        raise
    return OpenFile(path, real, fd, info.st_size, info.st_mtime_ns)


def _real_path(fd: int, opened_as: Path) -> Path:
    """Where the open file is: the kernel's word where it gives it, else the path's."""
    try:
        return Path(f"/proc/self/fd/{fd}").readlink()
    except OSError:
        return Path(os.path.realpath(opened_as))


class OpenArtifact(Closing):
    """An artifact's open files, in shard order, and their merged header. A context manager."""

    def __init__(self, files: tuple[OpenFile, ...]) -> None:
        self.files = files
        self._header: Header | None = None

    @classmethod
    def open(cls, path: str, roots: Sequence[Path], shards: Sequence[str] = ()) -> Self:
        """Open `path` below `roots`, and the other shards of a split model.

        `shards` are the paths a manifest declares, in order, the first equal to
        `path`; without them the siblings that the file's name implies are opened.
        Raises PowerError P2xx; nothing stays open then.
        """
        if shards:
            check_shard_names(path, shards)
        artifact = cls((open_file(path, roots),))
        try:
            names = list(shards[1:]) or sibling_names(artifact.files[0].name, artifact.header)
            for name in names:
                artifact.files += (open_file(name, roots),)
            artifact._header = merge([artifact.header, *map(_header_of, artifact.files[1:])])
        except BaseException:
            artifact.close()
            raise
        return artifact

    @property
    def header(self) -> Header:
        """The header, of all shards together; read once, from the open files."""
        if self._header is None:
            self._header = _header_of(self.files[0])
        return self._header

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def close(self) -> None:
        """Close every file; again is harmless."""
        files, self.files = self.files, ()
        for file in files:
            os.close(file.fd)


def _header_of(file: OpenFile) -> Header:
    return read_header(file.fd, file.size, file.name)
