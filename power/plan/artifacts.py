"""The artifacts that a manifest or a plan pins: opened once, then judged by size and digest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from power.artifact.hashing import check_digest
from power.artifact.header import Header, read_header
from power.artifact.opened import OpenFile, open_file
from power.artifact.shards import check_shard_names, merge, sibling_names
from power.diagnostics import Diagnostic, PowerError, fail

Progress = Callable[[int, int], None]


class Pin(Protocol):
    """One file by path, size and digest."""

    @property
    def path(self) -> str:
        """As written: relative, `/`-separated."""
        ...

    @property
    def bytes(self) -> int:
        """Size."""
        ...

    @property
    def sha256(self) -> str:
        """Lower-case hex."""
        ...


class Pinned(Pin, Protocol):
    """An artifact as a manifest or a plan pins it; of a split one, `shards` has every file."""

    @property
    def shards(self) -> Sequence[Pin] | None:
        """Every file in order, the first equal to the artifact itself; None for a whole one."""
        ...

    @property
    def source(self) -> str | None:
        """Where it came from; None where that is not stated."""
        ...

    @property
    def revision(self) -> str | None:
        """Of the source."""
        ...


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """An open file and what it has to be. `whose`: `target` or `draft`."""

    whose: str
    pin: Pin
    file: OpenFile


class ReadableFile(Protocol):
    """An open or a sealed file."""

    @property
    def name(self) -> str:
        """Its path as written."""
        ...

    @property
    def fd(self) -> int:
        """Its descriptor."""
        ...

    @property
    def size(self) -> int:
        """Its bytes."""
        ...


@contextmanager
def opened(
    artifacts: Sequence[tuple[str, Pinned]], roots: Sequence[Path]
) -> Iterator[tuple[PinnedFile, ...]]:
    """Every file of `artifacts`, pairs of (whose, pin), open; sizes are checked.

    Raises PowerError: P211 the declared shards' names do not fit, P22x a file
    cannot be found or opened, P444 a size differs; everything of a stage at once.
    """
    files: list[PinnedFile] = []
    try:
        problems: list[Diagnostic] = []
        for whose, artifact in artifacts:
            try:
                files += _open(whose, artifact, roots)
            except PowerError as error:
                problems += error.diagnostics
        if not problems:
            problems = [found for file in files if (found := _size_problem(file)) is not None]
        if problems:
            raise PowerError(tuple(problems))
        yield tuple(files)
    finally:
        for file in files:
            os.close(file.file.fd)


def _open(whose: str, artifact: Pinned, roots: Sequence[Path]) -> list[PinnedFile]:
    if artifact.shards is not None:
        check_shard_names(artifact.path, [shard.path for shard in artifact.shards])
    files: list[PinnedFile] = []
    try:
        for pin in artifact.shards or (artifact,):
            files.append(PinnedFile(whose, pin, _open_pinned(artifact, pin, roots)))  # noqa: PERF401 - those opened before a failure are closed
    except BaseException:
        for file in files:
            os.close(file.file.fd)
        raise
    return files


def _open_pinned(artifact: Pinned, pin: Pin, roots: Sequence[Path]) -> OpenFile:
    """Open one file; who does not have it is told which one to get, and from where."""
    try:
        return open_file(pin.path, roots)
    except PowerError as error:
        raise PowerError(
            tuple(
                _which(found, artifact, pin) if found.code == "P221" else found
                for found in error.diagnostics
            )
        ) from error


def _which(found: Diagnostic, artifact: Pinned, pin: Pin) -> Diagnostic:
    origin = known = ""
    if artifact.source is not None:
        at = "" if artifact.revision is None else f" at revision {artifact.revision}"
        if artifact.source.startswith(("http://", "https://")):
            origin = f" from {artifact.source}{at}"
        else:  # no address to fetch from: a package, of which the file may be a part
            known = f" (source: {artifact.source}{at})"
    return replace(
        found,
        expected=f"{found.expected}, {pin.bytes:,} bytes, sha256 {pin.sha256}{known}",
        hint=f"fetch it{origin}, or name the folder that holds it with `--artifacts DIR`",
    )


def _size_problem(pinned: PinnedFile) -> Diagnostic | None:
    if pinned.file.size == pinned.pin.bytes:
        return None
    return Diagnostic(
        code="P444",
        message=f"the {pinned.whose} `{pinned.pin.path}` has another size than is pinned",
        place=str(pinned.file.path),
        expected=f"{pinned.pin.bytes} bytes",
        found=f"{pinned.file.size} bytes",
        hint="fetch the file again; when it was changed on purpose, pin the new one",
    )


def check_digests(files: Sequence[PinnedFile], digests: Sequence[str]) -> None:
    """Return when every digest is the pinned one. Raises PowerError P231 with all that differ."""
    problems: list[Diagnostic] = []
    for pinned, digest in zip(files, digests, strict=True):
        try:
            check_digest(pinned.pin.path, pinned.pin.sha256, digest)
        except PowerError as error:
            place = str(pinned.file.path)
            problems += [replace(found, place=place) for found in error.diagnostics]
    if problems:
        raise PowerError(tuple(problems))


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of a plan's artifacts; `draft` is None without one."""

    target: Header
    draft: Header | None


def headers_of(files: Sequence[tuple[str, ReadableFile]]) -> Headers:
    """The headers of open or sealed files, pairs of (whose, file), each read by its descriptor.

    Raises PowerError: P20x to P211 as the header reader; P447 a split model of
    which only the first file is pinned; what is wrong with both together.
    """
    found: dict[str, Header] = {}
    problems: list[Diagnostic] = []
    for whose in dict.fromkeys(whose for whose, _ in files):
        try:
            found[whose] = _header_of([file for owner, file in files if owner == whose])
        except PowerError as error:
            problems += error.diagnostics
    if problems:
        raise PowerError(tuple(problems))
    return Headers(found["target"], found.get("draft"))


def _header_of(files: Sequence[ReadableFile]) -> Header:
    headers = [read_header(file.fd, file.size, file.name) for file in files]
    siblings = sibling_names(files[0].name, headers[0]) if len(headers) == 1 else ()
    if siblings:
        fail(
            "P447",
            f"`{files[0].name}` is the first of {len(siblings) + 1} shards, "
            "and the others are not pinned",
            expected=f"{len(siblings) + 1} `shards`, each with path, bytes and sha256",
            found="none",
            hint="list every shard in the manifest, the first one included",
        )
    return merge(headers)
