"""Which executor runs a matrix: one engine process, several, or those of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from power.cli.console import Verb
from power.cli.lanes import Lanes
from power.evidence.executor import Executor, InOrder
from power.evidence.fan_out.cluster import LOCAL
from power.evidence.fan_out.over_ray import OverRay
from power.evidence.fan_out.processes import Processes
from power.evidence.fan_out.roster import crowding
from power.runner.prompts import Prompt


def executor(
    verb: Verb, lanes: Lanes, prompts: Sequence[Prompt], *, workers: int, ray: str | None
) -> Executor:
    """What `--workers` and `--ray` ask for; notes a warning where this machine is too small."""
    if workers > 1 and ray in {None, LOCAL}:
        verb.note(crowding([arm.locked.plan for arm in lanes.arms], workers))
    if ray is not None:
        return OverRay(lanes.specs, prompts, 0, workers, ray)
    if workers > 1:
        return Processes(lanes.specs, prompts, 0, workers)
    return InOrder(lanes.lanes, prompts, 0)
