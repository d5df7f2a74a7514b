"""Finding an artifact below a root: the path rules, the symlink rule, a regular file.

A path in a manifest is data from somebody else. It is relative, `/`-separated and
has no `..`; symbolic links are followed only while they end inside a root.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from power.diagnostics import fail

_DRIVE = re.compile(r"[A-Za-z]:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_PATH_LIMIT = 4096


def check_path(path: str) -> None:
    """Raise PowerError P220 unless `path` is a portable relative path."""
    reason = _objection(path)
    if reason is not None:
        fail(
            "P220",
            f"`{path}` cannot name an artifact: {reason}",
            expected="a relative path with `/` between its parts",
            found=path,
            hint="put the file below the manifest's folder or an artifact root, and name it "
            "relative to that",
        )


def _objection(path: str) -> str | None:
    parts = path.split("/")
    rules = (
        (not path, "it is empty"),
        (len(path) > _PATH_LIMIT, f"it is longer than {_PATH_LIMIT} characters"),
        (_CONTROL.search(path), "it holds a control character"),
        (_SURROGATE.search(path), "it is not valid Unicode"),
        ("\\" in path, "it holds a backslash"),
        (_SCHEME.match(path), "it is a URL"),
        (_DRIVE.match(path), "it begins with a drive letter"),
        (path.startswith(("/", "~")), "it is absolute"),
        (".." in parts, "it leaves the folder with `..`"),
        ("" in parts or "." in parts, "it has an empty part or a `.`"),
    )
    return next((reason for broken, reason in rules if broken), None)


def environment_roots() -> tuple[Path, ...]:
    """The artifact roots of this machine: those of POWER_ARTIFACTS, `:` between them."""
    listed = os.environ.get("POWER_ARTIFACTS", "").split(os.pathsep)
    return tuple(Path(path) for path in listed if path)


def locate(path: str, roots: Sequence[Path]) -> Path:
    """The regular file that `path` names below the first of `roots` that has it, resolved.

    Raises PowerError P220 (path rules), P221 (in no root), P222 (a link leads
    outside every root), P223 (not a regular file), P224 (not readable).
    """
    check_path(path)
    candidate = next((root / path for root in roots if _exists(path, root / path)), None)
    if candidate is None:
        _not_found(path, roots)
    real = Path(os.path.realpath(candidate))
    if not inside(real, [Path(os.path.realpath(root)) for root in roots]):
        escapes(path)
    try:
        check_regular(path, real.stat().st_mode)
    except OSError as error:
        cannot_open(path, error)
    return real


def _exists(path: str, candidate: Path) -> bool:
    try:
        candidate.stat()
    except (FileNotFoundError, NotADirectoryError):
        if candidate.is_symlink():
            _dangling(path, candidate)
        return False
    except OSError as error:
        cannot_open(path, error)
    return True


def _not_found(path: str, roots: Sequence[Path]) -> NoReturn:
    twin = next((twin for root in roots if (twin := _twin(root / path)) is not None), None)
    fail(
        "P221",
        f"`{path}` was not found",
        expected=" or ".join(str(root / path) for root in roots) or "at least one root",
        found="no such file"
        if twin is None
        else f"no such file, but `{twin}`, whose name differs in case or Unicode form",
        hint="fetch it, or name the folder that holds it with `--artifacts DIR`",
    )


def _twin(missing: Path) -> Path | None:
    """A file beside `missing` that some systems would take for it."""
    try:
        names = sorted(entry.name for entry in missing.parent.iterdir())
    except OSError:
        return None
    wanted = _folded(missing.name)
    return next((missing.with_name(name) for name in names if _folded(name) == wanted), None)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def inside(path: Path, roots: Sequence[Path]) -> bool:
    """Whether a resolved path lies below one of the resolved roots."""
    return any(path.is_relative_to(root) for root in roots)


def check_regular(path: str, mode: int) -> None:
    """Raise P223 unless `mode` (from stat) is that of a regular file."""
    if stat.S_ISREG(mode):
        return
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    )
    fail(
        "P223",
        f"`{path}` is not a regular file",
        expected="a regular file",
        found=next((name for test, name in kinds if test(mode)), "something else"),
        hint="name the GGUF file itself",
    )


def escapes(path: str) -> NoReturn:
    """Raise P222: the file that was found is not inside a root."""
    fail(
        "P222",
        f"`{path}` is a symbolic link that leads outside every artifact root",
        expected="a file inside a root",
        found="a link to another place",
        hint="copy the file into the root, or name its real folder with `--artifacts DIR`",
    )


def cannot_open(path: str, error: OSError) -> NoReturn:
    """Raise P224 with the system's reason."""
    fail(
        "P224",
        f"cannot open `{path}`: {error.strerror or error}",
        hint="check the file's and its folders' permissions",
    )


def _dangling(path: str, candidate: Path) -> NoReturn:
    fail(
        "P221",
        f"`{path}` is a symbolic link to a file that is not there",
        expected="an existing file",
        found=f"a broken link at {candidate}",
        hint="fetch the file the link points to",
    )
