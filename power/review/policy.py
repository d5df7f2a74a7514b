"""Which classes of change a policy refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from power.diagnostics import Diagnostic
from power.review.consequences import Class
from power.review.diff import Diff


def refused(diffs: Iterable[Diff], classes: Collection[Class]) -> Iterator[Diagnostic]:
    """P456 for each class of `classes` in each diff, naming what hit."""
    for found in diffs:
        for kind in Class:
            changes = found.of(kind) if kind in classes else ()
            if changes:
                keys = ", ".join(f"`{change.path}`" for change in changes)
                yield Diagnostic(
                    code="P456",
                    message=f"policy refuses changes of class {kind.value}: {keys}",
                    place=found.new.spec,
                    expected=f"no change of {', '.join(k.value for k in Class if k in classes)}",
                    hint="leave these keys as they were, or have the policy (`--fail-on`) changed",
                )
