"""What two arms must have in common to be compared, and what makes each its own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from power.plan.model import Plan
from power.receipt.digests import decimal, sha256

# How a plan speculates: what a comparison is about. A plan that runs `off` holds no
# widths, so nothing that is dead in one arm can tell the two apart.
_STRATEGY = (
    "speculation.",
    "draft.",
    "graph.batch",
    "graph.shape",
    "graph.rows",
    "engine.capabilities",
)
# Names, provenance and claims: no part of what runs.
_WORDS = (
    "version",
    "revision",
    "name",
    "manifest.",
    "profile.",
    "exactness.",
    "bounds.",
    "preflight.",
    "target.path",
    "target.source",
    "target.revision",
    "target.license",
    "target.header.",
    "draft.path",
    "draft.source",
    "draft.revision",
    "draft.license",
    "draft.header.",
    "speculation.requested",
    "speculation.reason",
)


def identity(plan: Plan) -> dict[str, str]:
    """The facts of `plan` that an arm shares with those it is compared with, as text."""
    return {path: value for path, value in _facts(plan) if not path.startswith(_STRATEGY)}


def strategy(plan: Plan, *, control: bool) -> dict[str, str]:
    """The facts of `plan` that are its strategy; a control run proposes nothing."""
    found = {path: value for path, value in _facts(plan) if path.startswith(_STRATEGY)}
    if not control:
        return found
    shape = {path: value for path, value in found.items() if path.startswith("graph.")}
    return {"speculation.strategy": "off", **shape}


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    for path, value in _leaves(plan.body(), ""):
        if not path.startswith(_WORDS):
            yield path, _text(path, value)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _leaves(child, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for index, child in enumerate(value):
            yield from _leaves(child, f"{path}[{index}]")
    else:
        yield path, value


def _text(path: str, value: Any) -> str:
    if path == "sampling.grammar":
        return sha256(str(value).encode())
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    return decimal(value) if isinstance(value, float) else str(value)
