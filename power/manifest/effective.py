"""What a compiler calls: both files read and merged, the rules between their keys checked."""

from __future__ import annotations

from pathlib import Path

from power.diagnostics import PowerError
from power.manifest.load import (
    LoadedManifest,
    LoadedProfile,
    load_manifest,
    load_profile,
)
from power.manifest.merge import Effective, merge
from power.manifest.rules import check_rules
from power.manifest.shipped import profile_path


def load_effective(path: Path, profile: str | None = None) -> Effective:
    """Read the manifest at `path` and its profile, merge them, check the rules.

    `profile` replaces the one that the manifest names: a shipped name, or a path
    relative to the working folder. Raises `PowerError` with P1xx codes.
    """
    loaded = load_manifest(path)
    effective = merge(loaded, _profile_of(loaded, path, profile))
    problems = check_rules(effective)
    if problems:
        raise PowerError(problems)
    return effective


def _profile_of(loaded: LoadedManifest, path: Path, override: str | None) -> LoadedProfile | None:
    if override is not None:
        return load_profile(profile_path(override, Path()))
    reference = loaded.manifest.profile
    if reference is None:
        return None
    return load_profile(profile_path(reference, path.parent, loaded.span("profile")))
