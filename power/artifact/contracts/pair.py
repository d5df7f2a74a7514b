"""The door to the draft contracts: one question for every kind."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from power.artifact.contracts.common import KINDS, detect_kind
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.header import Header
from power.diagnostics import fail


def check_pair(kind: str, draft: Header, target: Header) -> PairFacts:
    """What the contract of `kind` establishes about `draft` for `target`.

    For `mtp` the draft is the target itself, or a table for its head. Raises
    PowerError P330 when the file is another kind than `kind`, P334 when there is
    no such kind, and P30x to P33x with everything that does not hold.
    """
    _check_kind(kind, draft)
    check: Callable[[Header, Header], PairFacts] = _module(kind).check
    return check(draft, target)


def draft_facts(kind: str, draft: Header) -> HeaderFacts | None:
    """Header facts of a draft of `kind`, judged alone; raises PowerError P30x to P33x.

    None for a file that is no model but a table for the target's own head (`mtp`).
    """
    _check_kind(kind, draft)
    facts: Callable[[Header], HeaderFacts | None] = _module(kind).facts
    return facts(draft)


def _module(kind: str) -> ModuleType:
    return import_module(f"power.artifact.contracts.{kind.replace('-', '_')}")


def _check_kind(kind: str, draft: Header) -> None:
    if kind not in KINDS:
        fail(
            "P334",
            f"`{kind}` is not a kind of draft",
            expected=", ".join(KINDS),
            found=kind,
            hint="name one of the kinds",
        )
    found = detect_kind(draft)
    # A native prediction head is part of a whole model, which may also draft for another.
    if found != kind and not (kind == "mtp" and found == "draft-model"):
        fail(
            "P330",
            f"the draft is declared as `{kind}`, but the file is of kind `{found}`",
            place=draft.place("general.architecture"),
            expected=kind,
            found=found,
            hint=f"declare `{found}`, or give a file of kind `{kind}`",
        )
