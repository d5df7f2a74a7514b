"""Reading a host's business: CPUs through psutil, GPUs through NVIDIA's library where it is.

Counts and shares only: no process is named and no user.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]

from power.evidence.preflight import Gpu, Reading

_INTERVAL_MS = 500
_BUSY = 0.1  # of one CPU
_CPUS = Path("/sys/devices/system/cpu")


def read_host(idle_ms: int) -> Reading:
    """Watch the host for `idle_ms` (>= 1), in intervals of half a second."""
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    interval = min(_INTERVAL_MS, idle_ms)
    gpus = _Gpus()
    try:
        before = _processor_time()
        shares = []
        for _ in range(max(1, idle_ms // interval)):
            shares.append(min(100, math.ceil(psutil.cpu_percent(interval=interval / 1000))))
            gpus.look()
        after = _processor_time()
        seen = gpus.seen()
    finally:
        gpus.close()
    seconds = len(shares) * interval / 1000
    return Reading(
        started=started,
        interval_ms=interval,
        cpu_percent=shares,
        busy_processes=_busy(before, after, seconds),
        free_memory_bytes=psutil.virtual_memory().available,
        governors=governors(),
        clock_mhz=_clocks(),
        gpus=seen,
    )


def _processor_time() -> dict[int, float]:
    """Seconds of processor time by process, ours aside."""
    found = {}
    for process in psutil.process_iter(["pid", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None and process.info["pid"] != os.getpid():
            found[process.info["pid"]] = times.user + times.system
    return found


def _busy(before: Mapping[int, float], after: Mapping[int, float], seconds: float) -> int:
    """Processes that used a tenth of a CPU or more between the two."""
    return sum(after[pid] - before[pid] >= _BUSY * seconds for pid in before.keys() & after.keys())


def governors(cpus: Path = _CPUS) -> list[str] | None:
    """What governs the frequency of the CPUs, each once; None where the host does not say."""
    found = set()
    for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor"):
        try:
            found.add(path.read_text("ascii").strip())
        except OSError:
            continue
    return sorted(found) or None


def _clocks() -> list[int] | None:
    """The lowest and the highest current frequency of a CPU in MHz."""
    try:
        found = [int(cpu.current) for cpu in psutil.cpu_freq(percpu=True) or ()]
    except (OSError, NotImplementedError):
        return None
    return [min(found), max(found)] if found else None


def _nvml() -> ModuleType | None:
    """NVIDIA's library, started; None without it or without a driver."""
    try:
        import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml  # type: ignore[no-any-return,unused-ignore]


class _Gpus:
    """The GPUs while they are watched; what cannot be read is as if it were not there."""

    def __init__(self) -> None:
        self._nvml: Any = _nvml()
        self._unreadable = self._nvml is None
        self._handles: list[Any] = []
        self._busy: list[list[int]] = []
        self._ask(self._find)

    def _ask(self, question: Callable[[], Any]) -> Any:
        """The answer; None, once and for all, when the driver refuses one."""
        if self._unreadable:
            return None
        try:
            return question()
        except self._nvml.NVMLError:
            self._unreadable = True
            return None

    def _find(self) -> None:
        for index in range(self._nvml.nvmlDeviceGetCount()):
            self._handles.append(self._nvml.nvmlDeviceGetHandleByIndex(index))
            self._busy.append([])

    def look(self) -> None:
        """Note how busy each is now."""
        for handle, shares in zip(self._handles, self._busy, strict=True):
            rates = self._ask(partial(self._nvml.nvmlDeviceGetUtilizationRates, handle))
            if rates is not None:
                shares.append(int(rates.gpu))

    def seen(self) -> list[Gpu] | None:
        """What was seen of each; None where there is no library, no driver, or no answer."""
        pairs = list(zip(self._handles, self._busy, strict=True))
        found: list[Gpu] | None = self._ask(lambda: [self._gpu(h, busy) for h, busy in pairs])
        return found

    def _gpu(self, handle: Any, busy: list[int]) -> Gpu:
        nvml = self._nvml
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        return Gpu(
            name=_text(nvml.nvmlDeviceGetName(handle)),
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
            busy_percent=busy,
            free_memory_bytes=int(memory.free),
            total_memory_bytes=int(memory.total),
            clock_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            processes=len(nvml.nvmlDeviceGetComputeRunningProcesses(handle)),
        )

    def close(self) -> None:
        """Let go of the library."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
