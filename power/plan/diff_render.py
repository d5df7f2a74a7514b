"""A diff as text, as Markdown for a review, and as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from power.diagnostics import escape
from power.manifest.model import Settings
from power.manifest.templates import render
from power.plan.consequences import Class
from power.plan.diff import Diff

_LONGEST = 100  # characters of a value; a digest has 64
UNCHANGED = "no change in meaning"


def render_text(found: Diff) -> str:
    """A block a class, a line a change, readable without colour. Ends with a line end."""
    lines = [f"{found.new.kind}: {escape(found.old.spec)} -> {escape(found.new.spec)}"]
    for title, changes in _groups(found):
        lines += ["", title]
        for change in changes:
            lines.append(f"  {escape(change['path'])}: {change['old']} -> {change['new']}")
            lines.append(f"      {change['says']}")
    if not found.changes:
        lines.append(UNCHANGED)
    return "\n".join(lines) + "\n"


def render_markdown(found: Diff) -> str:
    """For a comment on a change: text from the files is shown and never read as markup."""
    values = {
        "kind": found.new.kind,
        "old": found.old.spec,
        "new": found.new.spec,
        "groups": _groups(found),
        "count": len(found.changes),
        "unchanged": UNCHANGED,
    }
    return render("diff.md.j2", values)


def _groups(found: Diff) -> list[tuple[str, list[dict[str, str]]]]:
    """The classes that have changes: their titles, and the changes with both sides as text."""
    plan = found.new.kind == "plan"
    groups = []
    for kind in Class:
        changes = [
            {
                "path": change.path,
                "old": shown(change.old, None if plan else change.path),
                "new": shown(change.new, None if plan else change.path),
                "says": change.says,
            }
            for change in found.of(kind)
        ]
        if changes:
            groups.append((kind.title, changes))
    return groups


def render_json(found: Diff) -> dict[str, Any]:
    """JSON-ready: every change with whole values; a side that is not written is left out."""
    return {
        "kind": found.new.kind,
        "old": found.old.spec,
        "new": found.new.spec,
        "changes": [
            {
                "path": change.path,
                "class": change.kind.value,
                "consequence": change.says,
                **({} if change.old is None else {"old": change.old}),
                **({} if change.new is None else {"new": change.new}),
            }
            for change in found.changes
        ],
    }


def shown(value: Any, setting: str | None = None) -> str:
    """A value on one line. A long one is cut, and told apart by its digest.

    `setting` is the key of a manifest or profile, whose default is named where
    the value is not set.
    """
    if value is None:
        default = None if setting is None else _default(setting)
        return "(not set)" if default is None else f"(not set; default {default})"
    if isinstance(value, Mapping):
        return _evidence(value)
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _LONGEST:
        return escape(text)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{escape(text[:40])}… ({len(text)} characters, sha256 {digest}…)"


def _default(setting: str) -> str | None:
    """The default of a setting, where it is a value of its own."""
    section, _, key = setting.partition(".")
    table = getattr(Settings(), section, None)
    value = getattr(table, key, None)
    if value is None or not key:
        return None
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _evidence(entry: Mapping[str, Any]) -> str:
    """An entry of evidence: what kind, from where, and its first numbers."""
    figures = [f"{name} = {_number(number)}" for name, number in entry.get("figures", {}).items()]
    more = ["…"] if len(figures) > 3 else []  # noqa: PLR2004 - as many as fit a line
    origin = str(entry.get("source") or entry.get("report") or "")
    parts = [str(entry.get("by", "")), origin[:_LONGEST], *figures[:3], *more]
    return escape(", ".join(part for part in parts if part))


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)
