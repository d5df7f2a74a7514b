"""What a host must be like for a set of plans, and the preflight that finds out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from power.evidence.preflight import Limits, Preflight, judge
from power.evidence.probe import read_host
from power.plan import model

_UNSET = model.Preflight()
_DEFAULT = Limits(free_memory_bytes=1)


def limits_of(plans: Sequence[model.Plan]) -> Limits:
    """The limits that suit every one of `plans`: of each, the strictest that a plan sets.

    A limit that no plan sets has its default; the memory left has to hold the
    artifacts of the largest plan. Two plans that want two governors have none
    that suits both: then the first one's is asked.
    """
    asked = [plan.preflight or _UNSET for plan in plans]
    free = [a.free_memory_bytes or _artifact_bytes(p) for a, p in zip(asked, plans, strict=True)]
    governors = [a.governor for a in asked if a.governor is not None]
    return Limits(
        free_memory_bytes=max(free),
        idle_ms=_strictest(max, [a.idle_ms for a in asked], _DEFAULT.idle_ms),
        cpu_percent=_strictest(min, [a.cpu_percent for a in asked], _DEFAULT.cpu_percent),
        gpu_percent=_strictest(min, [a.gpu_percent for a in asked], _DEFAULT.gpu_percent),
        busy_processes=min(
            (a.busy_processes for a in asked if a.busy_processes is not None), default=None
        ),
        governor=governors[0] if governors else None,
        gpu=any("cuda" in plan.host.require for plan in plans),
    )


def preflight(plans: Sequence[model.Plan], *, overridden: bool = False) -> Preflight:
    """Watch this host, and judge whether `plans` can be measured on it."""
    limits = limits_of(plans)
    return judge(read_host(limits.idle_ms), limits, overridden=overridden)


def _strictest(
    choose: Callable[[list[int]], int], values: Sequence[int | None], default: int
) -> int:
    given = [value for value in values if value is not None]
    return choose(given) if given else default


def _artifact_bytes(plan: model.Plan) -> int:
    """Bytes of every model file."""
    parts: list[model.Target | model.Draft] = [plan.target]
    if plan.draft is not None:
        parts.append(plan.draft)
    return sum(
        sum(shard.bytes for shard in part.shards) if part.shards else part.bytes for part in parts
    )
