"""Saying in one message why a worker is no more."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from power.diagnostics import Diagnostic

_EXCERPT_LINES = 3
_EXCERPT_CHARS = 400


def excerpt(log: bytes) -> str | None:
    """The last words of the native log, on one line; None when it said nothing."""
    lines = [line.strip() for line in log.decode("utf-8", "replace").splitlines()]
    told = [line for line in lines if line][-_EXCERPT_LINES:]
    return " | ".join(told)[-_EXCERPT_CHARS:] or None


def oom_kills() -> int | None:
    """How many processes the kernel has killed for lack of memory; None where it does not say."""
    if sys.platform != "linux":
        return None
    try:
        text = Path("/proc/vmstat").read_text("ascii")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return None


def explain_end(status: int | None, doing: str, log: bytes, oom_before: int | None) -> Diagnostic:
    """Why a worker that should be there is not.

    status: its exit status, negative for a signal (as `Popen.returncode`); None
    when it closed its connection and lived on.
    doing: what it was at, after "while". oom_before: `oom_kills()` when it started.
    """
    if status == -signal.SIGKILL:
        return _killed(doing, log, oom_before)
    if status is not None and status < 0:
        return Diagnostic(
            "P518",
            f"the engine's worker was stopped by {_signal_name(-status)} while {doing}",
            found=excerpt(log),
            hint="if it happens again with the same plan, report it with this message",
        )
    how = "closed its connection" if status is None else f"ended with exit status {status}"
    return Diagnostic(
        "P505",
        f"the engine's worker {how} while {doing}",
        found=excerpt(log),
        hint="if it happens again with the same plan, report it with this message",
    )


def _killed(doing: str, log: bytes, oom_before: int | None) -> Diagnostic:
    now = oom_kills()
    if oom_before is not None and now is not None and now > oom_before:
        why = "the kernel ended it for lack of memory"
    else:
        why = "most often that is for lack of memory"
    return Diagnostic(
        "P517",
        f"the engine's worker was killed (SIGKILL) while {doing}: {why}",
        found=excerpt(log),
        hint="lower `graph.context`, use a smaller quantisation, or free memory",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
