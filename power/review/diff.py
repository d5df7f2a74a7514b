"""What changed between two manifests, profiles, plans or trust files, sorted by consequence.

`diff` is a function of values. Layout, comments and key order make no change. Of
manifests and profiles the values that hold are compared, so that a change of the
named profile, or of a default that another value settles, is seen as what it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from power.diagnostics import Diagnostic, fail
from power.manifest.model import SECTIONS
from power.review.consequences import NOTHING, Class, Consequence, Evidence, means
from power.review.documents import Document
from power.review.explain import Step, consequence
from power.review.fit import misfits
from power.review.holding import Held, Holding, Origin


@dataclass(frozen=True, slots=True)
class Change:
    """One key whose value differs; None stands for a key that is not there or not applied.

    `old_from` and `new_from` say which file a setting's value came from; None for
    what is no setting.
    """

    path: str
    old: Any
    new: Any
    means: Consequence
    old_from: Origin | None = None
    new_from: Origin | None = None

    @property
    def kind(self) -> Class:
        """Its class."""
        return self.means.kind


@dataclass(frozen=True, slots=True)
class Diff:
    """All changes, the gravest class first, within a class in the order of the models.

    `warnings`: what no longer fits together on the new side, and what could not be read.
    """

    old: Document
    new: Document
    changes: tuple[Change, ...]
    warnings: tuple[Diagnostic, ...] = ()

    def of(self, kind: Class) -> tuple[Change, ...]:
        """The changes of one class."""
        return tuple(change for change in self.changes if change.kind is kind)

    @property
    def voids(self) -> tuple[Evidence, ...]:
        """The evidence that these changes make void, in a fixed order.

        A certificate names its plan by digest, and every change of a manifest, profile
        or plan gives a plan with another one.
        """
        lost = {kind for change in self.changes for kind in change.means.voids}
        lost |= {Evidence.CERTIFICATE} if self.changes and self.new.kind != "trust" else set()
        return tuple(kind for kind in Evidence if kind in lost)


def diff(old: Document, new: Document) -> Diff:
    """Compare two documents of one kind. Raises PowerError P450 for two kinds."""
    if old.kind != new.kind:
        fail(
            "P450",
            f"a {old.kind} and a {new.kind} cannot be compared",
            place=f"{old.spec} and {new.spec}",
            expected="two manifests, two profiles, two plans or two trust files",
            hint="compile the manifest and compare the plans"
            if {old.kind, new.kind} == {"manifest", "plan"}
            else "name two files of one kind",
        )
    before, after = Holding(old), Holding(new)
    changes = [*_own(old, new, before, after), *_settings(old, new, before, after)]
    changes.sort(key=lambda change: change.kind.rank)
    warnings = (*old.remarks, *new.remarks, *misfits(before, after, new))
    return Diff(old, new, tuple(changes), warnings)


def _own(old: Document, new: Document, before: Holding, after: Holding) -> Iterator[Change]:
    """Changes of what is no setting: names, artifacts, evidence; of a plan, its sources."""
    shared = _evidence(old.content).keys() & _evidence(new.content).keys()
    was, now = _facts(old.content, shared), _facts(new.content, shared)
    for path in _in_order(was, now):
        if was.get(path) != now.get(path):
            step = Step(path, was.get(path), now.get(path), before, after)
            yield Change(path, step.old, step.new, consequence(step))


def _settings(old: Document, new: Document, before: Holding, after: Holding) -> Iterator[Change]:
    """Changes of settings by the value that holds, and of what only a file wrote down."""
    written_before, written_after = _written(old), _written(new)
    for path in _in_order(before.settings, after.settings):
        was, now = _held(before, path), _held(after, path)
        if was.value != now.value:
            step = Step(path, was.value, now.value, before, after)
            yield Change(path, was.value, now.value, consequence(step), was.origin, now.origin)
        elif written_before.get(path) != written_after.get(path):
            yield Change(
                path, was.value, now.value, _restated(path, old, new), was.origin, now.origin
            )


def _restated(path: str, old: Document, new: Document) -> Consequence:
    """The value holds as before, but another file states it."""
    written = path in _written(new)
    text = "written down now" if written and path not in _written(old) else "no longer written"
    return means(Class.WORDS, f"{text}: the value that holds is the same", NOTHING)


def _held(side: Holding, path: str) -> Held:
    return side.settings.get(path) or Held(None, "plan" if side.kind == "plan" else "default")


def _written(document: Document) -> dict[str, Any]:
    """The settings that a manifest or profile wrote itself; nothing of a plan."""
    if document.effective is None:
        return {}
    return {
        f"{section}.{key}": value
        for section in SECTIONS
        for key, value in document.content.get(section, {}).items()
    }


def _in_order(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """All paths: those of `after` in its order, each vanished one behind its predecessor."""
    order = list(after)
    places = {path: (index, 0) for index, path in enumerate(order)}
    last = (-1, 0)
    for path in before:
        if path not in places:
            places[path] = (last[0], last[1] + 1)
        last = places[path]
    return sorted(places, key=places.__getitem__)


def _facts(content: Mapping[str, Any], shared: AbstractSet[str]) -> dict[str, Any]:
    """Leaves by dotted path that are no settings, in file order.

    Evidence that only one side has is one leaf, so that a new entry is one change.
    """
    facts: dict[str, Any] = {}
    for key, value in content.items():
        if key in SECTIONS:
            continue
        if key != "evidence":
            facts |= dict(_leaves(value, key))
            continue
        for name, entry in _evidence(content).items():
            path = f"evidence[{name}]"
            facts |= dict(_leaves(entry, path)) if name in shared else {path: entry}
    return facts


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _leaves(
                child, f"{path}.{key}" if re.fullmatch(r"[\w-]+", key) else (f'{path}."{key}"')
            )
    elif isinstance(value, Sequence) and value and isinstance(value[0], Mapping):
        for index, child in enumerate(value):
            yield from _leaves(child, f"{path}[{index}]")
    else:
        yield path, value


def _evidence(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Entries of evidence by what was measured, so that their order is no change."""
    seen: Counter[str] = Counter()
    entries = {}
    for entry in content.get("evidence", ()):
        name = entry["what"]
        seen[name] += 1
        entries[name if seen[name] == 1 else f"{name} ({seen[name]})"] = entry
    return entries
