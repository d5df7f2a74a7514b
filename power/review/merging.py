"""The merge driver of plans: a plan is compiled again from the merged manifest.

Git hands over the three plans and their path, in the middle of a merge in which the
work tree need not hold the merged manifest yet. So the manifest is merged here, by the
same three-way merge, from the versions that the three plans name by digest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from power.diagnostics import Diagnostic, PowerError
from power.manifest.load import parse_manifest, parse_profile
from power.manifest.meaning import meaning_sha256, profile_sha256
from power.plan import lock
from power.plan.files import replace_text
from power.plan.model import Plan, Source
from power.review.git import WorkTree, git

_COMMITS = 500  # commits of a file's history that are searched
Compile = Callable[[Path, str | None, Path], str]
"""(manifest, profile, its own folder) -> the text of the plan. Raises PowerError."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The plan's text in the common ancestor, here, and in what is merged."""

    base: str
    ours: str
    theirs: str


def merged(work: WorkTree, path: str, sides: Sides, compile_it: Compile) -> str:
    """The text of the merged plan at `path`, from the root.

    Raises PowerError P470: a side is no sound plan, a manifest is not found, or the
    manifests conflict; else as the compiler, where artifacts are absent too.
    """
    plans = [_plan(text, path) for text in (sides.base, sides.ours, sides.theirs)]
    manifest = _beside(path)
    text = _merge(work, manifest, [plan.manifest for plan in plans], _manifest_sha256)
    reference = parse_manifest(text, manifest).manifest.profile
    with tempfile.TemporaryDirectory(prefix="power-merge-") as name:
        folder = Path(name)
        file = folder / PurePosixPath(manifest).name
        file.write_bytes(text)
        if reference is not None and reference.endswith(".toml"):
            profile = (PurePosixPath(manifest).parent / reference).as_posix()
            wanted = [plan.profile for plan in plans]
            there = folder / reference
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(_merge(work, profile, wanted, _profile_sha256))
        return compile_it(file, None, (work.root / manifest).parent)


def _plan(text: str, path: str) -> Plan:
    try:
        return lock.loads(text, path)
    except PowerError as error:
        why = f"one side is no sound plan: {error.diagnostics[0].message}"
        raise _given_up(path, why) from error


def _beside(path: str) -> str:
    place = PurePosixPath(path)
    name = "manifest.toml" if place.name == "plan.lock" else f"{place.stem}.toml"
    return place.with_name(name).as_posix()


def _manifest_sha256(data: bytes) -> str:
    return meaning_sha256(parse_manifest(data, "manifest").manifest)


def _profile_sha256(data: bytes) -> str:
    return profile_sha256(parse_profile(data, "profile").profile)


def _merge(
    work: WorkTree,
    path: str,
    wanted: Sequence[Source | None],
    digest_of: Callable[[bytes], str],
) -> bytes:
    """The three-way merge of the file at `path`, from the versions that plans name."""
    base, ours, theirs = (_version(work, path, source, digest_of) for source in wanted)
    with tempfile.TemporaryDirectory(prefix="power-merge-") as folder:
        files = [Path(folder) / name for name in ("ours", "base", "theirs")]
        for file, data in zip(files, (ours, base, theirs), strict=True):
            file.write_bytes(data)
        found = git("merge-file", "-p", "--quiet", *map(str, files), folder=work.root)
    if found.returncode != 0:
        raise _given_up(path, f"`{path}` conflicts too: merge it first")
    return found.stdout


def _version(
    work: WorkTree, path: str, source: Source | None, digest_of: Callable[[bytes], str]
) -> bytes:
    """The version of `path` that a plan was compiled from, found by its digest."""
    for data in _versions(work, path):
        try:
            if source is not None and digest_of(data) == source.sha256:
                return data
        except PowerError:
            continue
    raise _given_up(path, f"no version of `{path}` is the one that a plan was compiled from")


def _versions(work: WorkTree, path: str) -> Iterator[bytes]:
    """The file in the work tree, then as it was in each commit that touched it."""
    file = work.root / path
    if file.is_file():
        yield file.read_bytes()
    listed = work.run("log", "--all", f"-{_COMMITS}", "--format=%H", "--", path)
    for commit in listed.decode().split():
        data = work.blob(commit, path)
        if data is not None:
            yield data


def _given_up(path: str, why: str) -> PowerError:
    return PowerError(
        (
            Diagnostic(
                code="P470",
                message=f"the plan cannot be compiled again in this merge: {why}",
                place=path,
                hint="merge the manifest, then run `power compile` on it and `git add` both",
            ),
        )
    )


def leave_conflict(base: Path, ours: Path, theirs: Path, marker: int) -> None:
    """Leave a conflict in `ours`, with markers of `marker` characters.

    Two plans whose texts merge cleanly are a conflict all the same: no compiler saw
    the result.
    """
    names = ("-L", "ours", "-L", "base", "-L", "theirs", f"--marker-size={marker}")
    found = git("merge-file", *names, str(ours), str(base), str(theirs))
    if found.returncode == 0:
        left, right = ours.read_text("utf-8"), theirs.read_text("utf-8")
        ends = [f"{mark * marker}" for mark in "<=>"]
        replace_text(ours, f"{ends[0]} ours\n{left}{ends[1]}\n{right}{ends[2]} theirs\n")
