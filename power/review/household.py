"""Which manifest, profile and plan of a work tree belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from power.manifest.load import LoadedProfile, load_profile
from power.manifest.shipped import profile_names, profile_path
from power.plan.compile import default_lock_path
from power.plan.lock import plan_sha256
from power.receipt.files import PACKAGE_INDEX, default_certificate
from power.review.entries import Entry
from power.review.measured import reports_of
from power.review.plans import Judged, Sources, judge_plan, missing
from power.review.survey import Found, Tree


class Household:
    """The documents of a work tree (`now`) in their relations, and what a change touched."""

    def __init__(self, tree: Tree, now: dict[str, Found], touched: Sequence[Entry]) -> None:
        self.tree = tree
        self.now = now
        self.changed = {entry.path for entry in touched}
        self.said_anew = {e.path for e in touched if e.diff is None or e.diff.changes}
        self.old_names = {entry.path: entry.old for entry in touched if entry.old is not None}
        self.manifests = {p: f for p, f in now.items() if f.kind == "manifest" and f.document}
        self.plans = {p: f for p, f in now.items() if f.kind == "plan"}

    @cached_property
    def by_digest(self) -> dict[str, dict[str, Any]]:
        """The content of every plan here that can be read, by its `plan_sha256`."""
        read = (found.document for found in self.plans.values())
        return {plan_sha256(one.content): one.content for one in read if one is not None}

    @cached_property
    def profiles(self) -> dict[str, LoadedProfile]:
        """Profiles by name: those of the work tree, then those that come with Power."""
        here = (profile_in(found) for found in self.now.values())
        named = {one.profile.name: one for one in here if one is not None}
        shipped = (name for name in profile_names() if name not in named)
        return named | {name: load_profile(profile_path(name, Path())) for name in shipped}

    def judged(self) -> Iterator[Judged]:
        """Every plan that the change concerns, then the manifests that lack theirs."""
        owned: set[str | None] = set()
        for path, found in self.plans.items():
            manifest = self._manifest_of(path, found)
            if not self._packed(path):
                owned.add(manifest)
            if path in self.changed or (manifest in self.changed and not self._packed(path)):
                before = self.tree.before(self.old_names.get(path, path))
                text = None if before is None else before.text
                yield judge_plan(path, found.text, self._sources(manifest), text)
        for path in self.manifests:
            if path not in owned:
                yield from self._missing(path)

    def _packed(self, plan: str) -> bool:
        """Whether a plan lies in an evidence package, which tells of what was, and stays so."""
        folders = list(Path(plan).parents)[:2]  # a package is at most one folder deep
        return any((self.tree.root / one / PACKAGE_INDEX).is_file() for one in folders)

    def _missing(self, path: str) -> Iterator[Judged]:
        """The plan that a manifest lost, or that a new one should have beside the others."""
        wanted = _lock_of(path)
        had = _lock_of(self.old_names.get(path, path))
        was_there = self.tree.before(had) is not None
        expected = any(Path(other).parent == Path(path).parent for other in self.plans)
        sources = self._sources(path)
        if sources is not None and (was_there or (path in self.said_anew and expected)):
            yield missing(wanted, sources, was_there=was_there)

    def _manifest_of(self, path: str, plan: Found) -> str | None:
        """The manifest of a plan: the one that it lies beside, else the only one of its name."""
        beside = [manifest for manifest in self.manifests if _lock_of(manifest) == path]
        if beside or plan.document is None:
            return beside[0] if beside else None
        name = plan.document.content["manifest"]["name"]
        named = [
            manifest
            for manifest, found in self.manifests.items()
            if found.document is not None and found.document.content["name"] == name
        ]
        return named[0] if len(named) == 1 else None

    def _sources(self, manifest: str | None) -> Sources | None:
        found = None if manifest is None else self.manifests.get(manifest)
        if found is None or found.document is None or found.document.effective is None:
            return None
        return Sources(found.path, found.document.effective, self.profiles)

    @cached_property
    def touched_files(self) -> set[str]:
        """Every path that the change names, documents or not."""
        return {path for change in self.tree.changes for path in (change.old, change.new) if path}

    def certificates_to_check(self) -> Iterator[tuple[Found, str]]:
        """Plans, and where their certificates would be, where either was touched."""
        for path, found in self.plans.items():
            beside = default_certificate(Path(path)).as_posix()
            if found.document is not None and self.touched_files & {path, beside}:
                yield found, beside

    def profiles_to_check(self) -> Iterator[tuple[str, LoadedProfile]]:
        """The profiles whose evidence the change may have made void."""
        files = self.touched_files
        plans_changed = any(path.endswith(".lock") for path in files)
        for path, found in self.now.items():
            profile = profile_in(found)
            if profile is None:
                continue
            if plans_changed or path in self.changed or files & set(reports_of(path, profile)):
                yield path, profile


def _lock_of(manifest: str) -> str:
    return default_lock_path(Path(manifest)).as_posix()


def profile_in(found: Found) -> LoadedProfile | None:
    """The profile that a file is, None for anything else."""
    if found.kind != "profile" or found.document is None or found.document.effective is None:
        return None
    return found.document.effective.profile
