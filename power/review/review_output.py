"""A review for a person at a terminal, and for a program."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from power.diagnostics import counted, escape
from power.review.consequences import Class
from power.review.diff_output import (
    ChangeOutput,
    EvidenceName,
    Output,
    changes_output,
    render_text,
)
from power.review.documents import Kind
from power.review.entries import Entry, Status
from power.review.plans import State
from power.review.review import Review

STATUS = {
    "changed": "changed",
    "added": "new",
    "removed": "removed",
    "renamed": "renamed",
    "reached": "not changed itself, but what it names is",
}
STATE = {
    "current": "current",
    "stale": "stale",
    "edited": "edited by hand",
    "conflict": "holds conflict markers",
    "unreadable": "cannot be read",
    "missing": "missing",
    "orphan": "without its manifest",
}


def verdict(found: Review) -> str:
    """One line: how many defects, warnings and documents."""
    warnings = len(found.problems) - len(found.errors)
    return (
        f"{counted(len(found.errors), 'defect')}, {counted(warnings, 'warning')}; "
        f"{counted(len(found.entries), 'document')} touched, "
        f"{counted(len(found.plans), 'plan')} judged"
    )


def headline(entry: Entry) -> str:
    """The kind, path and status of one document."""
    was = "" if entry.old is None else f", was {escape(entry.old)}"
    return f"{entry.kind} {escape(entry.path)} ({STATUS[entry.status]}{was})"


def review_text(found: Review, *, color: bool = False) -> str:
    """The review but for its problems, which are diagnostics. Ends with a line end."""
    lines = [f"review against {escape(found.base)} ({found.commit[:12]})", ""]
    for entry in found.entries:
        lines.append(headline(entry))
        if entry.diff is not None:
            body = render_text(entry.diff, color=color, voids=False).splitlines()[1:]
            lines += [f"  {line}" if line else "" for line in body]
        lines.append("")
    if found.plans:
        lines.append("plans")
        lines += [f"  {escape(plan.path)}: {STATE[plan.state]}" for plan in found.plans]
        lines.append("")
    for title, items in (
        ("void from here on", [kind.title for kind in found.voids]),
        ("not judged", [escape(text) for text in found.unjudged]),
    ):
        if items:
            lines += [title, *(f"  {item}" for item in items), ""]
    return "\n".join([*lines, verdict(found)]) + "\n"


class EntryOutput(Output):
    """One document that the change touches."""

    kind: Kind
    path: str = Field(description="from the root of the repository")
    status: Status
    old_path: str | None = Field(None, description="its path before, where it was renamed")
    changes: list[ChangeOutput] | None = Field(
        None, description="the gravest first; absent where one side cannot be read or is not there"
    )


class PlanOutput(Output):
    """What is known of one plan."""

    path: str = Field(description="from the root of the repository")
    manifest: str | None = Field(None, description="the manifest that it goes with")
    state: State


class ReviewOutput(Output):
    """What `power review --format json` says."""

    base: str = Field(description="the revision that was asked for")
    commit: str = Field(description="the commit that was compared with: where the histories part")
    documents: list[EntryOutput]
    plans: list[PlanOutput] = Field(description="every plan that the change concerns")
    voids: list[EvidenceName] = Field(description="evidence that the changes make void")
    unjudged: list[str] = Field(description="what could not be judged, in words")
    counts: dict[str, int] = Field(description="changes by class")
    defects: int = Field(ge=0, description="problems that are errors")


def review_json(found: Review) -> dict[str, Any]:
    """JSON-ready (`ReviewOutput`); the problems are the verb's diagnostics."""
    output = ReviewOutput(
        base=found.base,
        commit=found.commit,
        documents=[_entry(entry) for entry in found.entries],
        plans=[
            PlanOutput(path=plan.path, manifest=plan.manifest, state=plan.state)
            for plan in found.plans
        ],
        voids=[kind.value for kind in found.voids],
        unjudged=list(found.unjudged),
        counts={kind.value: found.count(kind) for kind in Class},
        defects=len(found.errors),
    )
    return output.model_dump(mode="json", by_alias=True, exclude_none=True)


def _entry(entry: Entry) -> EntryOutput:
    return EntryOutput(
        kind=entry.kind,
        path=entry.path,
        status=entry.status,
        old_path=entry.old,
        changes=None if entry.diff is None else changes_output(entry.diff),
    )
