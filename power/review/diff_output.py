"""A diff as text, as Markdown for a review, and as JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from power.diagnostics import escape
from power.manifest.templates import render
from power.review.consequences import Class
from power.review.diff import Change, Diff
from power.review.documents import Kind
from power.review.values import shown

UNCHANGED = "no change in meaning"
_RESET = "\x1b[0m"
_TONES = {
    Class.IDENTITY: "\x1b[1;31m",
    Class.OUTPUT: "\x1b[1;31m",
    Class.SHAPE: "\x1b[1;33m",
    Class.SPEED: "\x1b[1;36m",
    Class.TRUST: "\x1b[1;35m",
    Class.WORDS: "\x1b[1;2m",
}
_OLD, _NEW, _DIM, _BOLD = "\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[1m"


def render_text(found: Diff, *, color: bool = False, voids: bool = True) -> str:
    """A block a class, a line a change, readable without colour. Ends with a line end.

    voids: whether to end with the evidence that the changes make void.
    """

    def paint(text: str, tone: str) -> str:
        return f"{tone}{text}{_RESET}" if color else text

    old, new = escape(found.old.spec), escape(found.new.spec)
    lines = [paint(f"{found.new.kind}: {old} -> {new}", _BOLD)]
    for kind in Class:
        changes = found.of(kind)
        lines += ["", paint(kind.title, _TONES[kind])] if changes else []
        for change in changes:
            before, after = both(change, found.new.kind)
            values = f"{paint(before, _OLD)} -> {paint(after, _NEW)}"
            lines.append(f"  {escape(change.path)}: {values}")
            lines.append(f"      {paint(change.means.says, _DIM)}")
    if not found.changes:
        lines.append(UNCHANGED)
    if voids and found.voids:
        lines += ["", paint("Void from here on", _BOLD)]
        lines += [f"  {kind.title}" for kind in found.voids]
    return "\n".join(lines) + "\n"


def both(change: Change, kind: Kind) -> tuple[str, str]:
    """The two sides of a change in a document of `kind`, as text.

    A setting that the document does not state itself says where it came from.
    """
    old, new = (None if o == kind else o for o in (change.old_from, change.new_from))
    return shown(change.old, old), shown(change.new, new)


def render_markdown(found: Diff) -> str:
    """For a comment on a change: text from the files is shown and never read as markup."""
    return render("diff.md.j2", markdown_values(found))


def markdown_values(found: Diff) -> dict[str, Any]:
    """What `templates/diff.md.j2` is filled in with."""
    groups = []
    for kind in Class:
        rows = [
            {"path": change.path, "old": old, "new": new, "says": change.means.says}
            for change in found.of(kind)
            for old, new in (both(change, found.new.kind),)
        ]
        if rows:
            groups.append((kind.title, rows))
    return {
        "kind": found.new.kind,
        "old": found.old.spec,
        "new": found.new.spec,
        "groups": groups,
        "count": len(found.changes),
        "voids": [kind.title for kind in found.voids],
        "warnings": [warning.message for warning in found.warnings],
        "unchanged": UNCHANGED,
    }


ClassName = Literal["identity", "output", "shape", "speed", "trust", "words"]
EvidenceName = Literal["receipts", "certificate", "measurements"]
OriginName = Literal["manifest", "profile", "default", "derived", "plan"]


class Output(BaseModel):
    """A part of a JSON answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class ChangeOutput(Output):
    """One change. A side whose value is not there or not applied is left out."""

    path: str = Field(description="the key, dotted")
    class_: ClassName = Field(alias="class", description="of its consequence")
    consequence: str = Field(description="one line on what it means")
    old: Any = None
    new: Any = None
    old_from: OriginName | None = Field(None, description="which file the old value came from")
    new_from: OriginName | None = Field(None, description="which file the new value came from")
    voids: list[EvidenceName] = Field(description="evidence that this change makes void")


class DiffOutput(Output):
    """What `power diff --format json` says of two documents."""

    kind: Kind
    old: str = Field(description="the old document, as it was named")
    new: str = Field(description="the new document, as it was named")
    changes: list[ChangeOutput] = Field(description="the gravest class first")
    voids: list[EvidenceName] = Field(description="evidence that the changes make void together")


def render_json(found: Diff) -> dict[str, Any]:
    """JSON-ready: every change with whole values (`DiffOutput`)."""
    output = DiffOutput(
        kind=found.new.kind,
        old=found.old.spec,
        new=found.new.spec,
        changes=changes_output(found),
        voids=[kind.value for kind in found.voids],
    )
    return output.model_dump(mode="json", by_alias=True, exclude_none=True)


def changes_output(found: Diff) -> list[ChangeOutput]:
    """The changes of a diff for a program."""
    return [_change(change) for change in found.changes]


def _change(change: Change) -> ChangeOutput:
    return ChangeOutput(
        path=change.path,
        class_=change.kind.value,
        consequence=change.means.says,
        old=change.old,
        new=change.new,
        old_from=change.old_from,
        new_from=change.new_from,
        voids=[kind.value for kind in change.means.voids],
    )
