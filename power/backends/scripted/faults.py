"""Making an engine fail at a chosen call, so that those who run it can be tested."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import NoReturn


class Step(StrEnum):
    """Calls into an engine that can be made to fail."""

    LOAD = "load"
    PREFILL = "prefill"
    BEGIN = "begin"
    CHECKPOINT = "checkpoint"
    PROPOSE = "propose"
    PASS = "pass"  # noqa: S105 - a pass over tokens, no password
    SAMPLE = "sample"
    COMMIT = "commit"
    REPLAY = "replay"
    FOLLOW = "follow"  # the proposer's commit
    RESTORE = "restore"


class Action(StrEnum):
    """How a call fails."""

    ERROR = "error"  # raises ScriptedError
    OOM = "oom"  # raises MemoryError
    CRASH = "crash"  # the process aborts, as on a failed native assertion
    KILL = "kill"  # the process is killed, as by a kernel that is out of memory
    HANG = "hang"  # the call never returns


class ScriptedError(RuntimeError):
    """A failure that was asked for."""


_OPTION = re.compile(rf"({'|'.join(Action)})_at_({'|'.join(Step)})")


class Faults:
    """Counts calls by step and fails the one that was chosen (1-based)."""

    def __init__(self, plan: Mapping[tuple[Step, int], Action] | None = None) -> None:
        self._plan = dict(plan or {})
        self.calls: Counter[Step] = Counter()

    @classmethod
    def from_options(cls, options: Mapping[str, int]) -> Faults:
        """From `{"crash_at_pass": 3}`; ValueError for a name that is none of these."""
        plan: dict[tuple[Step, int], Action] = {}
        for name, call in options.items():
            match = _OPTION.fullmatch(name)
            if match is None:
                raise ValueError(f"unknown option of the scripted backend: {name!r}")
            plan[Step(match[2]), call] = Action(match[1])
        return cls(plan)

    def trip(self, step: Step) -> None:
        """Count a call of `step`, and fail when it is the chosen one."""
        self.calls[step] += 1
        action = self._plan.get((step, self.calls[step]))
        if action is not None:
            _fail(action, step, self.calls[step])


def _fail(action: Action, step: Step, call: int) -> NoReturn:
    if action is Action.CRASH:
        os.abort()
    if action is Action.KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    if action is Action.OOM:
        raise MemoryError(f"asked for at {step} {call}")
    if action is Action.HANG:
        threading.Event().wait()
    raise ScriptedError(f"asked for at {step} {call}")
