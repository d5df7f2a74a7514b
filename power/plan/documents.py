"""What `power diff` compares: manifests, profiles and plans, from files or from git."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from power.diagnostics import escape, fail
from power.manifest.load import kind_of, parse_manifest, parse_profile
from power.manifest.meaning import meaning
from power.manifest.read import SIZE_LIMIT, decode, read_bytes
from power.manifest.syntax import parse

Kind = Literal["manifest", "profile", "plan"]

_GIT_SECONDS = 60
_COMMIT = re.compile(rb"[0-9a-f]{40,64}\n")


@dataclass(frozen=True, slots=True)
class Document:
    """A document by meaning: `content` is plain values under the keys that the file wrote.

    `spec` is how the person named it.
    """

    kind: Kind
    spec: str
    content: dict[str, Any]


def load_document(spec: str) -> Document:
    """The document that `spec` names: a path, or `REV:path` for a file in a commit.

    An existing file wins over a revision of the same spelling. As in git, the path
    of `REV:path` starts at the repository's root, and at the working folder when
    it starts with `./`. Raises PowerError: P101 to P120 the file cannot be read
    as what it is, P43x a plan is not sound, P451 it is none of the three, P452 to
    P455 git cannot give it.
    """
    path = Path(spec)
    revision, colon, inner = spec.partition(":")
    if colon and not os.path.lexists(path):
        return parse_document(_from_git(revision, inner, spec), spec)
    return parse_document(read_bytes(path, "document"), spec)


def parse_document(data: bytes, spec: str) -> Document:
    """The document in `data`, recognised by the keys that only one kind has."""
    text = decode(data, spec, "document")
    kind = kind_of(parse(text, spec, "document"))
    if kind is None:
        fail(
            "P451",
            "this is no manifest, profile or plan",
            place=spec,
            expected="a `[target]`, a `summary` or a `plan_sha256`",
            hint="name a file that `power compile` reads or writes",
        )
    return Document(kind, spec, _content(kind, data, text, spec))


def _content(kind: Kind, data: bytes, text: str, spec: str) -> dict[str, Any]:
    if kind == "manifest":
        return meaning(parse_manifest(data, spec).manifest)
    if kind == "profile":
        return meaning(parse_profile(data, spec).profile)
    from power.plan import lock  # noqa: PLC0415 - manifests need no plan reader

    return lock.loads(text, spec).body()


def _from_git(revision: str, path: str, spec: str) -> bytes:
    if not revision or not path or revision.startswith("-") or not spec.isprintable():
        fail(
            "P455",
            "this names no file in a commit",
            place=escape(spec, 200),
            expected="`REV:path`, the revision not starting with `-`",
            hint="write it as `main:manifests/NAME.toml`",
        )
    if _git("rev-parse", "--git-dir").returncode != 0:
        fail(
            "P452",
            "the working folder is in no git repository",
            place=spec,
            hint=f"there is no file `{escape(spec, 200)}` either: check the path",
        )
    # The commit's hexadecimal name goes on: whatever the revision was spelled like,
    # git reads it once, as a revision, and never as an option.
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit.returncode != 0 or not _COMMIT.fullmatch(commit.stdout):
        fail(
            "P453",
            f"git knows no commit `{revision}`",
            place=spec,
            hint="`git fetch` brings revisions that are elsewhere",
        )
    name = f"{commit.stdout.decode().strip()}:{path}"
    size = _git("cat-file", "-s", name)
    if size.returncode != 0 or _git("cat-file", "-t", name).stdout != b"blob\n":
        fail(
            "P454",
            f"`{revision}` holds no file `{path}`",
            place=spec,
            hint=f"`git ls-tree -r --name-only {revision}` lists its files",
        )
    if int(size.stdout) > SIZE_LIMIT:
        fail(
            "P103",
            "the document is too large",
            place=spec,
            expected="at most 1 MiB",
            hint="name a manifest, profile or plan",
        )
    return _git("cat-file", "blob", name).stdout


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run git without a pager, a prompt, a fetch or an index refresh."""
    environment = {
        **os.environ,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    try:
        return subprocess.run(
            ["git", *arguments],  # noqa: S607 - the git that the person uses
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_GIT_SECONDS,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        fail(
            "P452",
            "git cannot be run",
            found=str(error),
            hint="install git, or compare two files",
        )
