"""What no longer fits together after a change: B, S, K, rows and the claim.

The rules between settings are the manifest room's; a plan that breaks them cannot
be read at all. To them come combinations that are legal and seldom meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from power.diagnostics import Diagnostic
from power.manifest.rules import check_rules
from power.review.documents import Document
from power.review.holding import Holding

_NEEDS_A_DRAFT = "P138"
_S = "speculation.spec_mtp_recurrent_snapshots"


def misfits(before: Holding, after: Holding, new: Document) -> tuple[Diagnostic, ...]:
    """Warnings about `new`: every broken rule, and each odd pair that the change made."""
    odd = dict(_odd(after, new.spec))
    known = dict(_odd(before, new.spec))
    return (*broken(new), *(found for name, found in odd.items() if name not in known))


def broken(document: Document) -> Iterator[Diagnostic]:
    """Every rule between settings that a manifest or profile breaks, as a warning."""
    if document.effective is None:
        return
    for found in check_rules(document.effective):
        if document.kind == "profile" and found.code == _NEEDS_A_DRAFT:
            continue  # the manifest that names the profile brings the draft
        yield replace(found, severity="warning")


def _odd(side: Holding, place: str) -> Iterator[tuple[str, Diagnostic]]:
    """Pairs of settings that compile, by name."""
    k, s, rows = side.k, side.s, side.fixed_rows
    if k is None or s is None:
        return
    if s > k and not side.trims and side.origin(_S) != "default":
        yield (
            "unused",
            _warn(
                f"S = {s} is above K = {k}: the snapshots beyond K are never used",
                place,
                hint=f"set `spec_mtp_recurrent_snapshots = {k}`, or raise `spec_draft_max`",
            ),
        )
    if side.trims is None and rows is not None and rows - 1 > min(s, k):
        yield (
            "padding",
            _warn(
                f"a pass may have to drop {rows - 1} rows and keeps min(S, K) = {min(s, k)} "
                "snapshots: a recurrent target will not compile",
                place,
                hint='set `rows` to K + 1 with S = K, or `shape = "natural"`',
            ),
        )
    if side.get("speculation.spec_mtp_adaptive") and s >= k:
        yield (
            "adaptive",
            _warn(
                f"the adaptive width starts at min(K, S) = K = {k}: there is nothing to widen",
                place,
                hint="set S below K, or leave `spec_mtp_adaptive` out",
            ),
        )


def _warn(message: str, place: str, hint: str) -> Diagnostic:
    return Diagnostic(code="P458", message=message, place=place, hint=hint, severity="warning")
