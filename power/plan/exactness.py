"""Whether a plan needs a certificate for the exactness it claims, and whether one fits.

`rule` needs none: it is a property of the scheduler, held by its tests. `shape`
and `serial` are claims about an engine's arithmetic with one target on one
machine, which only a measurement shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from power.diagnostics import fail
from power.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Shown:
    """What a certificate shows, once its own integrity is established.

    plan_sha256: the plan it was measured with.
    level: the strongest level it shows for that plan.
    """

    plan_sha256: str
    level: Literal["rule", "shape", "serial"]


def needs_certificate(plan: Plan, *, control: bool = False) -> bool:
    """Whether a run of `plan` has to be backed by a certificate.

    A run without a proposer equals itself: `shape` holds by definition, and so
    does `serial` when its passes have one row.
    """
    level = plan.exactness.level
    if level == "rule":
        return False
    if control or plan.speculation.strategy == "off":
        return level == "serial" and (plan.graph.rows or 1) > 1
    return True


def require_level(plan: Plan, shown: Shown | None, *, control: bool = False) -> None:
    """Return when the level that `plan` claims is shown, or needs no showing.

    `shape` and `serial` are shown by a certificate of the same level only:
    neither implies the other (serial equality was measured against one-row
    passes, not against the target alone at this shape).
    Raises PowerError P446: no certificate, one for another plan, or another level.
    """
    if not needs_certificate(plan, control=control):
        return
    level, digest = plan.exactness.level, plan.lock.plan_sha256
    if shown is None:
        fail(
            "P446",
            f"the plan claims `{level}` exactness and there is no certificate that shows it",
            expected=f"a certificate of level `{level}` for plan {digest}",
            found="none",
            hint='set `level = "rule"` in the manifest, or certify the plan first',
        )
    if shown.plan_sha256 != digest:
        fail(
            "P446",
            "the certificate is for another plan",
            expected=digest,
            found=shown.plan_sha256,
            hint="certify this plan",
        )
    if shown.level != level:
        fail(
            "P446",
            f"the certificate does not show the `{level}` exactness that the plan claims",
            expected=level,
            found=shown.level,
            hint="claim the level that was shown, or certify again",
        )
