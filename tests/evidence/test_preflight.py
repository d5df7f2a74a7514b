"""Limits of a quiet host, one by one, and a real reading of this one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from power.evidence import probe
from power.evidence.limits import limits_of
from power.evidence.preflight import Gpu, Limits, Reading, judge
from tests.evidence.conftest import QUIET
from tests.receipt import samples

GPU = Gpu(
    name="A GPU",
    driver="1.2",
    busy_percent=[0, 21],
    free_memory_bytes=5,
    total_memory_bytes=9,
)


def reading(**changes: Any) -> Reading:
    return QUIET.model_copy(update=changes)


def missed(seen: Reading, limits: Limits) -> list[str]:
    return [gate.name for gate in judge(seen, limits).missed]


@pytest.mark.parametrize(
    ("seen", "limits", "names"),
    [
        ({}, {}, []),
        ({"cpu_percent": [0, 20]}, {}, []),
        ({"cpu_percent": [0, 21, 0]}, {}, ["cpu_percent"]),
        ({"free_memory_bytes": 6}, {}, ["free_memory_bytes"]),
        ({"busy_processes": 3}, {}, []),
        ({"busy_processes": 3}, {"busy_processes": 2}, ["busy_processes"]),
        ({"governors": ["performance"]}, {"governor": "performance"}, []),
        ({"governors": ["performance", "powersave"]}, {"governor": "performance"}, ["governor"]),
        ({}, {"governor": "performance"}, ["governor"]),
        ({}, {"gpu": True}, ["gpu"]),
        ({"gpus": [GPU]}, {"gpu": True}, ["gpu0_percent"]),
        ({"gpus": [GPU]}, {"gpu_percent": 21}, []),
    ],
)
def test_a_limit_is_met_or_named(
    seen: dict[str, Any], limits: dict[str, Any], names: list[str]
) -> None:
    found = judge(reading(**seen), Limits(free_memory_bytes=7, **limits))
    assert [gate.name for gate in found.missed] == names
    assert found.passed == (not names)


def test_an_override_is_told_only_where_something_was_missed() -> None:
    limits = Limits(free_memory_bytes=7, cpu_percent=1)
    assert judge(QUIET, limits, overridden=True).overridden
    assert not judge(reading(cpu_percent=[1]), limits, overridden=True).overridden


def test_memory_has_to_hold_every_artifact_of_the_largest_plan() -> None:
    split, off = samples.sample_plan(), samples.off_plan()
    assert limits_of([split]).free_memory_bytes == 1001 + 1002 + 77
    assert limits_of([off, split]).free_memory_bytes == 1001 + 1002 + 77
    assert limits_of([off]).free_memory_bytes == 1001


def test_the_strictest_limit_of_the_plans_holds() -> None:
    loose, tight = (
        samples.sample_plan(preflight=table)
        for table in (
            {"cpu_percent": 50, "idle_ms": 200, "free_memory_bytes": 9999},
            {"cpu_percent": 2, "idle_ms": 10_000, "busy_processes": 0, "governor": "performance"},
        )
    )
    assert limits_of([loose, tight]) == Limits(
        free_memory_bytes=9999,
        idle_ms=10_000,
        cpu_percent=2,
        busy_processes=0,
        governor="performance",
    )
    assert limits_of([samples.sample_plan()]) == Limits(free_memory_bytes=2080)


def test_a_plan_without_the_table_keeps_its_bytes() -> None:
    assert "preflight" not in samples.sample_plan().body()


def test_this_host_can_be_read() -> None:
    seen = probe.read_host(200)
    assert seen.interval_ms == 200
    assert len(seen.cpu_percent) == 1
    assert seen.free_memory_bytes > 0
    assert seen.clock_mhz is None or seen.clock_mhz[0] <= seen.clock_mhz[1]


def test_governors_are_read_once_each(tmp_path: Path) -> None:
    assert probe.governors(tmp_path) is None
    for cpu, governor in enumerate(["powersave", "performance", "powersave"]):
        folder = tmp_path / f"cpu{cpu}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(governor + "\n")
    assert probe.governors(tmp_path) == ["performance", "powersave"]


class FakeNvml:
    """NVIDIA's library for a host with two GPUs, the part of it that is used."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.open = 0

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=3),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(free=5, total=9),
            "nvmlDeviceGetName": b"A GPU",
            "nvmlSystemGetDriverVersion": "1.2",
            "nvmlDeviceGetClockInfo": 1400,
            "nvmlDeviceGetComputeRunningProcesses": [1, 2],
        }

        def call(*_: Any) -> Any:
            if name == self.fault:
                raise self.NVMLError(name)
            self.open += (name == "nvmlInit") - (name == "nvmlShutdown")
            return answers.get(name)

        return call


def test_gpus_are_read_where_the_library_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", nvml := FakeNvml())
    seen = probe.read_host(200)
    assert seen.gpus is not None
    assert seen.gpus[1] == GPU.model_copy(
        update={"busy_percent": [3], "clock_mhz": 1400, "processes": 2}
    )
    assert (len(seen.gpus), nvml.open) == (2, 0)


@pytest.mark.parametrize(
    "fault", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetUtilizationRates"]
)
def test_a_driver_that_does_not_answer_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", FakeNvml(fault))
    assert probe.read_host(100).gpus is None
