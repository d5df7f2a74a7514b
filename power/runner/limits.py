"""How long the parent waits for a child, what a child may use up, and how the user changes it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from power.diagnostics import fail

CALL_LIMIT_S = 300.0
"""Seconds that one native call may take: a prefill chunk, a pass, a step of loading.

A 512-token chunk of a 70B model on a slow host takes some minutes.
"""

CANCEL_GRACE_S = 10.0
"""Seconds that the worker has to end a cancelled request before it is killed."""

CLOSE_GRACE_S = 5.0
"""Seconds that the worker has to free the engine before it is killed."""

TEMPLATE_CPU_S = 2
"""Seconds of processor time that checking and rendering chat templates may take."""

TEMPLATE_WALL_S = 20.0
"""Seconds that they may take by the clock, on a host that is busy with other things."""

TEMPLATE_MEMORY = 512 * 1024 * 1024
"""Bytes of address space: interpreter, templates and text."""

TEMPLATE_TEXT = 16 * 1024 * 1024
"""Bytes of a rendered prompt."""

TIMEOUT_VARIABLE = "POWER_WORKER_TIMEOUT"


def call_limit(environment: Mapping[str, str] = os.environ) -> float:
    """The limit of one native call in seconds; POWER_WORKER_TIMEOUT overrides it.

    Raises PowerError P516 when the override is no finite number above 0.
    """
    text = environment.get(TIMEOUT_VARIABLE)
    if text is None:
        return CALL_LIMIT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        fail(
            "P516",
            f"`{TIMEOUT_VARIABLE}` is not a number of seconds",
            expected="a number above 0",
            found=text,
            hint=f"unset `{TIMEOUT_VARIABLE}` or give seconds, such as 600",
        )
    return seconds
