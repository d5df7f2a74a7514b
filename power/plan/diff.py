"""What changed between two manifests, profiles or plans, sorted by consequence.

`diff` is a function of values. Layout, comments and key order make no change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from power.diagnostics import fail
from power.plan.consequences import Class, consequence
from power.plan.documents import Document, load_document, parse_document

__all__ = [
    "Change",
    "Diff",
    "Document",
    "diff",
    "load_document",
    "parse_document",
]


@dataclass(frozen=True, slots=True)
class Change:
    """One key whose value differs; None stands for a key that is not written."""

    path: str
    old: Any
    new: Any
    kind: Class
    says: str


@dataclass(frozen=True, slots=True)
class Diff:
    """All changes, the gravest class first, within a class in file order."""

    old: Document
    new: Document
    changes: tuple[Change, ...]

    def of(self, kind: Class) -> tuple[Change, ...]:
        """The changes of one class."""
        return tuple(change for change in self.changes if change.kind is kind)


def diff(old: Document, new: Document) -> Diff:
    """Compare two documents of one kind. Raises PowerError P450 for two kinds."""
    if old.kind != new.kind:
        fail(
            "P450",
            f"a {old.kind} and a {new.kind} cannot be compared",
            place=f"{old.spec} and {new.spec}",
            expected="two manifests, two profiles or two plans",
            hint="compile the manifest and compare the plans"
            if {old.kind, new.kind} == {"manifest", "plan"}
            else "name two files of one kind",
        )
    shared = _evidence(old.content).keys() & _evidence(new.content).keys()
    before, after = _facts(old.content, shared), _facts(new.content, shared)
    changes = [
        Change(path, was, now, *consequence(path, old.content, new.content))
        for path in _in_order(before, after)
        if (was := before.get(path)) != (now := after.get(path))
    ]
    return Diff(old, new, tuple(sorted(changes, key=lambda change: change.kind.rank)))


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
    """Leaves by dotted path, in file order.

    Evidence that only one side has is one leaf, so that a new entry is one change.
    """
    facts: dict[str, Any] = {}
    for key, value in content.items():
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
            yield from _leaves(child, f"{path}.{key}")
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
