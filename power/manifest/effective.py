"""What a compiler calls: both files read and merged, the rules between their keys checked."""

from __future__ import annotations

import os
from pathlib import Path

from power.diagnostics import PowerError, Span, fail
from power.manifest.load import (
    LoadedManifest,
    LoadedProfile,
    read_manifest,
    read_profile,
)
from power.manifest.merge import Effective, merge
from power.manifest.rules import check_rules
from power.manifest.shipped import profile_path


def load_effective(path: Path, profile: str | None = None) -> Effective:
    """Read the manifest at `path` and its profile, merge them, check every rule at once.

    `profile` replaces the one that the manifest names: a shipped name, or a path
    relative to the working folder. Raises `PowerError` with P1xx codes.
    """
    manifest = read_manifest(path)
    effective = merge(manifest, _profile_of(manifest, path, profile))
    others = () if effective.profile is None else effective.profile.problems
    problems = (*manifest.problems, *others, *check_rules(effective))
    if problems:
        raise PowerError(problems)
    return effective


def _profile_of(loaded: LoadedManifest, path: Path, override: str | None) -> LoadedProfile | None:
    if override is not None:
        return read_profile(profile_path(override, Path()))
    reference = loaded.manifest.profile
    if reference is None:
        return None
    span = loaded.span("profile")
    found = profile_path(reference, path.parent, span)
    if reference.endswith(".toml"):
        refuse_link_outside(found, path.parent, span)
    return read_profile(found)


def refuse_link_outside(profile: Path, folder: Path, span: Span | None) -> None:
    """Raise P122 for a profile that lies elsewhere than below the manifest's `folder`.

    A manifest is somebody else's data, and may not have any file of this host read.
    """
    real = os.path.realpath(profile)
    if Path(real).is_relative_to(os.path.realpath(folder)):
        return
    fail(
        "P122",
        "the profile is a symbolic link that leads out of the manifest's folder",
        spans=() if span is None else (span,),
        place=None if span is not None else str(profile),
        expected="a file below the manifest's folder",
        found="a link to another place",
        hint="copy the profile beside the manifest, or name it yourself with `--profile`",
    )
