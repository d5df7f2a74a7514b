"""Values of documents as one line of text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from power.diagnostics import escape
from power.review.holding import Origin

_LONGEST = 100  # characters of a value; a digest has 64
_ORIGINS = {"default": "default", "derived": "default", "profile": "from the profile"}


def shown(value: Any, origin: Origin | None = None) -> str:
    """A value on one line. A long one is cut, and told apart by its digest.

    `origin` adds where a setting came from, unless the file itself says it.
    """
    source = "" if origin is None or origin not in _ORIGINS else _ORIGINS[origin]
    if value is None:
        return "(not set)"
    if isinstance(value, Mapping):
        return _evidence(value)
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > _LONGEST:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        text = f"{text[:40]}… ({len(text)} characters, sha256 {digest}…)"
    return escape(text) + (f" ({source})" if source else "")


def _evidence(entry: Mapping[str, Any]) -> str:
    """An entry of evidence: what kind, from where, and its first numbers."""
    figures = [f"{name} = {_number(number)}" for name, number in entry.get("figures", {}).items()]
    more = ["…"] if len(figures) > 3 else []  # noqa: PLR2004 - as many as fit a line
    origin = str(entry.get("source") or entry.get("report") or "")
    parts = [str(entry.get("by", "")), origin[:_LONGEST], *figures[:3], *more]
    return escape(", ".join(part for part in parts if part))


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)
