"""Whether a plan needs a certificate for the exactness it claims, and whether one fits.

`rule` needs none: it is a property of the scheduler, held by its tests. `shape`
and `serial` are claims about an engine's arithmetic with one target on one
machine, which only a measurement shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from power.diagnostics import fail
from power.plan.model import Plan

Level = Literal["rule", "shape", "serial"]
LEVELS: Final = ("rule", "shape", "serial")
"""Each shows those before it. `serial` is only given where no proposer makes a difference
at the plan's shape either, which is `shape`."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a certificate shows, once its own integrity is established.

    plan_sha256: the plan it was measured with.
    level: the strongest level it shows for that plan.
    """

    plan_sha256: str
    level: Level


def shows(shown: Level, claimed: Level) -> bool:
    """Whether what was shown is at least what is claimed."""
    return LEVELS.index(shown) >= LEVELS.index(claimed)


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

    A certificate that is there has to be about this plan, needed or not.
    Raises PowerError P446: no certificate, one for another plan, or a lower level.
    """
    needed = needs_certificate(plan, control=control)
    if shown is None and not needed:
        return
    level, digest = plan.exactness.level, plan.lock.plan_sha256
    if shown is None:
        fail(
            "P446",
            f"the plan claims `{level}` exactness and there is no certificate that shows it",
            expected=f"a certificate of level `{level}` for plan {digest}",
            found="none",
            hint='run `power certify` on the plan, or set `level = "rule"` in the manifest',
        )
    if shown.plan_sha256 != digest:
        fail(
            "P446",
            "the certificate is for another plan",
            expected=digest,
            found=shown.plan_sha256,
            hint="certify this plan: `power certify`",
        )
    if needed and not shows(shown.level, level):
        fail(
            "P446",
            f"the certificate does not show the `{level}` exactness that the plan claims",
            expected=level,
            found=shown.level,
            hint="claim the level that was shown, or certify again",
        )
