"""The documents that a change touches: changed, added, removed, renamed, or reached by another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from power.diagnostics import Diagnostic, PowerError
from power.manifest.shipped import profile_path
from power.review.diff import Diff, diff
from power.review.documents import Document, Kind
from power.review.fit import broken
from power.review.git import FileChange
from power.review.survey import Found, Tree

Status = Literal["changed", "added", "removed", "renamed", "reached"]
"""`reached`: the file is the same, but what it names (a profile, a key) changed."""
_ODD = "P458"


@dataclass(frozen=True, slots=True)
class Entry:
    """One document of the review; `old` is its path in the commit where that differs.

    `diff` is None where there is no other side, or one side cannot be read.
    """

    status: Status
    kind: Kind
    path: str
    old: str | None = None
    diff: Diff | None = None
    problems: tuple[Diagnostic, ...] = field(default=())


def entries(tree: Tree, now: dict[str, Found]) -> list[Entry]:
    """Every touched document, by path; what a profile or key file reaches comes after."""
    touched = {path for change in tree.changes for path in (change.old, change.new) if path}
    found = list(_touched(tree))
    seen = {entry.path for entry in found}
    reached = (_reached(tree, one, touched) for path, one in now.items() if path not in seen)
    return sorted(found, key=lambda e: e.path) + [entry for entry in reached if entry is not None]


def _touched(tree: Tree) -> Iterator[Entry]:
    for old, new in _pairs(tree, tree.changes):
        if new is not None:
            yield _entry(old, new)
        elif old is not None:
            yield Entry("removed", old.kind, old.path)


def _pairs(
    tree: Tree, changes: Iterable[FileChange]
) -> Iterator[tuple[Found | None, Found | None]]:
    """Both sides of each change; what git took for two files is paired by kind and name."""
    sides = [
        (
            None if change.old is None else tree.before(change.old),
            None if change.new is None else tree.at(change.new),
        )
        for change in changes
    ]
    gone = [old for old, new in sides if old is not None and new is None]
    for old, new in sides:
        if old is not None and new is not None and old.kind != new.kind:
            yield old, None
            yield None, new
        elif new is not None and old is None:
            twin = next((one for one in gone if _named(one) == _named(new) is not None), None)
            if twin is not None:
                gone.remove(twin)
            yield twin, new
        elif new is not None:
            yield old, new
    yield from ((old, None) for old in gone)


def _named(found: Found) -> tuple[Kind, str] | None:
    if found.document is None or "name" not in found.document.content:
        return None
    return found.kind, str(found.document.content["name"])


def _entry(old: Found | None, new: Found) -> Entry:
    problems = (*new.problems, *against(new))
    if old is None:
        return Entry("added", new.kind, new.path, problems=problems)
    status: Status = "changed" if old.path == new.path else "renamed"
    compared = None
    if old.document is not None and new.document is not None:
        compared = _compared(old.document, new.document)
    return Entry(
        status,
        new.kind,
        new.path,
        old=None if status == "changed" else old.path,
        diff=compared,
        problems=problems,
    )


def _compared(old: Document, new: Document) -> Diff:
    """The diff, with only those warnings that are no problem of the new side itself."""
    found = diff(old, new)
    return replace(found, warnings=tuple(w for w in found.warnings if w.code == _ODD))


def against(found: Found) -> Iterator[Diagnostic]:
    """What stands against a document that can be read: it would not compile."""
    document = found.document
    if document is not None:
        for finding in (*document.remarks, *broken(document)):
            yield replace(finding, severity="error")


def _reached(tree: Tree, found: Found, touched: set[str]) -> Entry | None:
    """A file that did not change, but says something else by what it names."""
    if found.document is None or found.kind not in {"manifest", "trust"}:
        return None
    if found.kind == "manifest" and profile_path_of(tree, found) not in touched:
        return None
    old = tree.before(found.path)
    if old is None or old.document is None or old.kind != found.kind:
        return None
    compared = _compared(old.document, found.document)
    problems = tuple(against(found))
    if not compared.changes and not problems:
        return None
    return Entry("reached", found.kind, found.path, diff=compared, problems=problems)


def profile_path_of(tree: Tree, found: Found) -> str | None:
    """Where the profile of a manifest lies, from the root; None when not in the work tree."""
    document = found.document
    if document is None or document.effective is None:
        return None
    reference = document.effective.loaded.manifest.profile
    if reference is None:
        return None
    try:
        path = profile_path(reference, (tree.root / found.path).parent).resolve()
    except PowerError:
        return None
    root = tree.root.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else None
