"""What the worker does to itself before native code is loaded."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = "500"


def confine(parent: int) -> None:
    """Die with process `parent`, leave no core file, be the kernel's first choice when memory ends.

    The parent-death signal is Linux's; elsewhere the end of the socket has to do.
    It follows the parent's *thread* that started the worker.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # A core of a model's size is no use; a parent that holds a key is worth more.
        with contextlib.suppress(OSError):  # a hardened /proc: the default score is kept
            Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, "ascii")
    if os.getppid() != parent:  # it died before prctl took effect
        os._exit(1)


def apply_host(affinity: tuple[int, ...] | None, nice: int) -> tuple[str, ...]:
    """Pin to CPUs and set the priority; threads started later inherit both.

    Returns what the host did not grant, as notes. Raises OSError when a CPU of
    `affinity` does not exist here.
    """
    if affinity is not None:
        os.sched_setaffinity(0, affinity)
        missing = set(affinity) - os.sched_getaffinity(0)
        if missing:
            raise OSError(f"this host has no CPU {', '.join(map(str, sorted(missing)))}")
    if nice:
        try:
            os.nice(nice)
        except PermissionError:
            return (f"the host did not grant the priority (niceness {nice:+d})",)
    return ()


def peak_rss() -> int:
    """Most resident memory this process has had, in bytes.

    `ru_maxrss` is no use here: it survives exec, and so begins at the parent's peak.
    """
    for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
