"""What git is told about plans: how to show them, and that they are compiled, not merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from power.plan.files import replace_text, write_atomic
from power.review.git import WorkTree, git
from power.review.survey import Found, Tree

ATTRIBUTES = {"text": "unset", "diff": "power", "merge": "power"}
_SPELLED = "-text diff=power merge=power"
_PATTERNS = ("plan.lock", "manifests/*.lock")
_HEADING = "# Plans: shown by `power show`, compiled again by `power git merge` (power git setup)"
# A plan that cannot be read (edited, conflicted) is shown as it is.
CONFIG = {
    "diff.power.textconv": 'f() { power show "$1" 2>/dev/null || cat "$1"; }; f',
    "merge.power.name": "compile plans again",
    "merge.power.driver": "power git merge %O %A %B %L %P",
}


@dataclass(frozen=True, slots=True)
class Done:
    """One line that was written; `there`: it was there already."""

    place: Literal["attributes", "config"]
    line: str
    there: bool


def set_up(folder: Path, *, everywhere: bool = False) -> list[Done]:
    """Write what is missing of attributes and config, and say so for each line.

    everywhere: the config of the user instead of that of the repository.
    Raises PowerError: P452 no work tree or git refuses, P441 a file cannot be written.
    """
    work = WorkTree(folder)
    return [*_attributes(work), *_config(work, "--global" if everywhere else "--local")]


def _attributes(work: WorkTree) -> Iterator[Done]:
    tree = Tree(work, "HEAD")
    plans = [path for path, found in tree.now().items() if _is_lock(path, found)]
    lines = [f"{pattern} {_SPELLED}" for pattern in _PATTERNS if not _has(work, _example(pattern))]
    covered = {path for path in plans if _matches(path)}
    lines += [
        f"{_quoted(path)} {_SPELLED}"
        for path in plans
        if path not in covered and not _has(work, path)
    ]
    for pattern in _PATTERNS:
        line = f"{pattern} {_SPELLED}"
        if line not in lines:
            yield Done("attributes", line, there=True)
    if not lines:
        return
    file = work.root / ".gitattributes"
    old = file.read_bytes().decode("utf-8", "surrogateescape") if file.is_file() else ""
    gap = "" if not old else "\n" if old.endswith("\n") else "\n\n"
    heading = "" if _HEADING in old else f"{gap}{_HEADING}\n"
    new = f"{old}{heading}" + "".join(f"{line}\n" for line in lines)
    if file.is_file():
        replace_text(file, new)
    else:
        write_atomic(file, new.encode(), overwrite=False)
    for line in lines:
        yield Done("attributes", line, there=False)


def _is_lock(path: str, found: Found) -> bool:
    return found.kind == "plan" and path.endswith(".lock")


def _example(pattern: str) -> str:
    return pattern.replace("*", "any-name")


def _matches(path: str) -> bool:
    """Whether one of the patterns is for the plan at `path`."""
    name = path.rsplit("/", 1)[-1]
    return name == "plan.lock" or (path.startswith("manifests/") and path.count("/") == 1)


def _quoted(path: str) -> str:
    """A path as a pattern that matches it alone."""
    plain = "".join(f"\\{c}" if c in "*?[\\!#" else c for c in path)
    return f'"/{plain}"' if " " in plain else f"/{plain}"


def _has(work: WorkTree, path: str) -> bool:
    """Whether git already gives `path` the attributes."""
    found = git("check-attr", "-z", *ATTRIBUTES, "--", path, folder=work.root)
    parts = found.stdout.decode("utf-8", "surrogateescape").split("\0")
    return dict(zip(parts[1::3], parts[2::3], strict=False)) == ATTRIBUTES


def _config(work: WorkTree, scope: str) -> Iterator[Done]:
    for key, value in CONFIG.items():
        now = git("config", scope, "--get", key, folder=work.root).stdout
        there = now == f"{value}\n".encode()
        if not there:
            work.run("config", scope, key, value)
        yield Done("config", f"{key} = {value}", there)
