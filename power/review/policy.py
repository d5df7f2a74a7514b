"""Which classes of change a policy refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from power.diagnostics import Diagnostic, Span
from power.review.consequences import Class
from power.review.diff import Change, Diff


def refused(diffs: Iterable[Diff], classes: Collection[Class]) -> Iterator[Diagnostic]:
    """P456 for each class of `classes` in each diff, naming what hit."""
    for found in diffs:
        for kind in Class:
            changes = found.of(kind) if kind in classes else ()
            if changes:
                at = _at(found, changes[0])
                keys = ", ".join(f"`{change.path}`" for change in changes)
                yield Diagnostic(
                    code="P456",
                    message=f"policy refuses changes of class {kind.value}: {keys}",
                    spans=at,
                    place=None if at else found.new.spec,
                    expected=f"no change of {', '.join(k.value for k in Class if k in classes)}",
                    hint="leave these keys as they were, or have the policy (`--fail-on`) changed",
                )


def _at(found: Diff, change: Change) -> tuple[Span, ...]:
    """The line of a change in a manifest or profile; of what a profile says, the line naming it."""
    effective = found.new.effective
    if effective is None:
        return ()
    if found.new.kind == "profile" and effective.profile is not None:
        return (effective.profile.span(*change.path.split(".")),)
    keys = ["profile"] if change.new_from == "profile" else change.path.split(".")
    return (effective.loaded.span(*keys),)
