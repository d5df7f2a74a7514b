"""The host a run finds: what a record says of it, and what a plan asks of it."""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

import psutil  # type: ignore[import-untyped,unused-ignore]

from power.diagnostics import fail
from power.plan.model import Host
from power.runner.types import HostRecord

_NAME = re.compile("([A-Za-z]+)[0-9]*")
_NICENESS = {"low": 10, "normal": 0, "high": -5}


def niceness(priority: str) -> int:
    """What `host.process_priority` adds to the worker's niceness."""
    return _NICENESS[priority]


def physical_cores() -> int:
    """Physical cores of the host; logical ones where it does not say; at least 1."""
    return psutil.cpu_count(logical=False) or psutil.cpu_count() or 1


def usable_cores() -> int:
    """Physical cores that this process may keep busy, at least 1.

    Threads beyond its CPU mask, or beyond the CPU time of its container, wait for each other.
    """
    cores = min(physical_cores(), _allowed_cpus())
    return min(cores, _quota() or cores)


def resolve_threads(host: Host) -> int:
    """Threads of the engine: as planned, else one a usable core within the affinity."""
    if host.threads is not None:
        return host.threads
    cores = usable_cores()
    return cores if host.cpu_affinity is None else min(cores, len(host.cpu_affinity))


def host_record(threads: int) -> HostRecord:
    """This host, without its name or its user's."""
    return HostRecord(
        os=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        cpu=_cpu_model(),
        physical_cores=physical_cores(),
        threads=threads,
        memory_bytes=psutil.virtual_memory().total,
    )


def _allowed_cpus() -> int:
    """CPUs of this process's mask."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(path: Path = Path("/sys/fs/cgroup/cpu.max")) -> int | None:
    """CPUs' worth of time that the control group may use, rounded up; None without a limit.

    The file holds `QUOTA PERIOD` in microseconds, QUOTA `max` for none (Linux, cgroup v2).
    """
    try:
        quota, period = path.read_text("ascii").split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _cpu_model(path: Path = Path("/proc/cpuinfo")) -> str:
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown"


def check_required(required: Sequence[str], devices: Sequence[str]) -> None:
    """Refuse (P511) when the engine sees no device of a kind the plan requires.

    A device is told by its kind, a number where there can be more of them, and words:
    `CUDA0 (NVIDIA H200)`, `CPU (...)`. Either may be required, `cuda` or `cuda0`.
    """
    found = [name for device in devices if (name := _NAME.match(device))]
    kinds = {part.lower() for name in found for part in (name[0], name[1])}
    missing = [kind for kind in required if kind.lower() not in kinds]
    if missing:
        fail(
            "P511",
            f"the host lacks what the plan requires: {', '.join(f'`{m}`' for m in missing)}",
            expected=", ".join(required),
            found=", ".join(devices) or "no device",
            hint="run on a host that has it, or change `host.require` and compile again",
        )
