"""Asking git: revisions, files of a commit, and what differs from a work tree.

Git is only read, never as a shell text: revisions become hexadecimal names before
they are used, names of files go behind `--` and come back between NULs.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from power.diagnostics import escape, fail
from power.manifest.read import SIZE_LIMIT

_SECONDS = 60
_COMMIT = re.compile(rb"[0-9a-f]{40,64}\n")


def git(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run git without a pager, a prompt, a fetch, a hook or an index refresh.

    Raises PowerError P452 when it cannot be run or does not answer in a minute.
    """
    environment = {
        **os.environ,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    try:
        return subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments],  # noqa: S607 - the person's own git
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        fail(
            "P452",
            "git cannot be run",
            found=str(error),
            hint="install git, or compare two files",
        )


def commit_of(revision: str, place: str, folder: Path | None = None) -> str:
    """The hexadecimal name of the commit that `revision` names, read by git as nothing else.

    `place` stands in messages. Raises PowerError P453 (no such commit), P455 (not
    the spelling of a revision).
    """
    if not revision or revision.startswith("-") or not revision.isprintable():
        fail(
            "P455",
            "this is no revision",
            place=escape(place, 200),
            expected="the name of a commit, not starting with `-`",
            hint="write it as `main` or `HEAD~1`",
        )
    found = git(
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{revision}^{{commit}}",
        folder=folder,
    )
    if found.returncode != 0 or not _COMMIT.fullmatch(found.stdout):
        fail(
            "P453",
            f"git knows no commit `{revision}`",
            place=place,
            hint="`git fetch` brings revisions that are elsewhere; in CI check out with the whole "
            "history",
        )
    return found.stdout.decode().strip()


def blob(commit: str, path: str, place: str, folder: Path | None = None) -> bytes | None:
    """The file at `path` of a commit; None when there is none, or it is no file.

    `place` stands in messages. Raises PowerError P103: larger than a document may be.
    """
    name = f"{commit}:{path}"
    size = git("cat-file", "-s", name, folder=folder)
    if size.returncode != 0 or git("cat-file", "-t", name, folder=folder).stdout != b"blob\n":
        return None
    if int(size.stdout) > SIZE_LIMIT:
        fail(
            "P103",
            "the document is too large",
            place=place,
            expected="at most 1 MiB",
            hint="name a manifest, profile, plan or trust file",
        )
    return git("cat-file", "blob", name, folder=folder).stdout


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that differs: `old` is its path in the commit, `new` in the work tree.

    None stands for a side without the file; the two differ where it was renamed.
    """

    old: str | None
    new: str | None


class WorkTree:
    """The work tree around a folder; `only` are git's pathspecs from its root.

    Raises PowerError P452 where there is none.
    """

    def __init__(self, folder: Path, only: Sequence[str] = ()) -> None:
        found = git("rev-parse", "--show-toplevel", folder=folder)
        if found.returncode != 0:
            fail(
                "P452",
                "the working folder is in no git work tree",
                place=str(folder),
                found=_first_line(found.stderr),
                hint="go into the repository that holds the change",
            )
        self.root = Path(os.fsdecode(found.stdout.removesuffix(b"\n")))
        self.only = tuple(only)

    def commit(self, revision: str) -> str:
        """The commit that `revision` names; P453, P455."""
        return commit_of(revision, revision, self.root)

    def fork_point(self, commit: str) -> str:
        """Where HEAD's history left that of `commit`; `commit` itself when that is unknown."""
        found = git("merge-base", commit, "HEAD", folder=self.root)
        return found.stdout.decode().strip() if found.returncode == 0 else commit

    def blob(self, commit: str, path: str) -> bytes | None:
        """The file at `path`, from the root, as it is in a commit; as `blob`."""
        return blob(commit, path, f"{commit[:12]}:{path}", self.root)

    def files(self) -> list[str]:
        """Every file that git keeps or would keep, from the root, sorted; deleted ones too."""
        listed = self.run(
            "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *self.only
        )
        return sorted(set(_names(listed)))

    def changes(self, commit: str) -> list[FileChange]:
        """The files that differ from `commit`, untracked ones included, renames found."""
        parts = _names(
            self.run(
                "diff",
                "--no-ext-diff",
                "--no-textconv",
                "--ignore-submodules",
                "--find-renames",
                "--name-status",
                "-z",
                commit,
                "--",
                *self.only,
            )
        )
        found: list[FileChange] = []
        while parts:
            status = parts.pop(0)
            if status[:1] in {"R", "C"}:
                old, new = parts.pop(0), parts.pop(0)
                found.append(FileChange(old if status[0] == "R" else None, new))
            else:
                path = parts.pop(0)
                found.append(
                    FileChange(None if status == "A" else path, None if status == "D" else path)
                )
        others = _names(
            self.run("ls-files", "-z", "--others", "--exclude-standard", "--", *self.only)
        )
        return found + [FileChange(None, path) for path in others]

    def run(self, *arguments: str) -> bytes:
        """What git prints in this work tree. Raises PowerError P452 when it fails."""
        found = git(*arguments, folder=self.root)
        if found.returncode != 0:
            fail(
                "P452",
                "git did not answer",
                place=str(self.root),
                found=_first_line(found.stderr),
                hint=f"see what `git {arguments[0]}` says in this folder",
            )
        return found.stdout


def _names(output: bytes) -> list[str]:
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _first_line(output: bytes) -> str | None:
    lines = output.decode("utf-8", "replace").splitlines()
    return lines[0] if lines else None
