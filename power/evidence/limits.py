"""What a host must be like for a set of plans, and the preflight that finds out."""

from __future__ import annotations

from collections.abc import Sequence

from power.evidence.preflight import Limits, Preflight, judge
from power.evidence.probe import read_host
from power.plan.model import Draft, Plan, Target


def limits_of(plans: Sequence[Plan]) -> Limits:
    """The limits that suit every one of `plans`."""
    return Limits(
        free_memory_bytes=max(_artifact_bytes(plan) for plan in plans),
        gpu=any("cuda" in plan.host.require for plan in plans),
    )


def preflight(plans: Sequence[Plan], *, overridden: bool = False) -> Preflight:
    """Watch this host, and judge whether `plans` can be measured on it."""
    limits = limits_of(plans)
    return judge(read_host(limits.idle_ms), limits, overridden=overridden)


def _artifact_bytes(plan: Plan) -> int:
    """Bytes of every model file."""
    parts: list[Target | Draft] = [plan.target]
    if plan.draft is not None:
        parts.append(plan.draft)
    return sum(
        sum(shard.bytes for shard in part.shards) if part.shards else part.bytes for part in parts
    )
