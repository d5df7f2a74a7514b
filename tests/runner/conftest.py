"""Plans, artifacts and runners for tests; the rogue engine is installed for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from power.plan.model import (
    EnginePin,
    Exactness,
    Graph,
    Header,
    Host,
    Lock,
    Plan,
    Sampling,
    Source,
    Speculation,
    Target,
)
from power.runner.runner import Runner

DIGEST = "0" * 64
ROGUE = Path(__file__).parent / "rogue"


@dataclass(frozen=True)
class Opened:
    """An artifact file, as the runner sees it."""

    fd: int


@dataclass(frozen=True)
class Artifacts:
    target: tuple[Opened, ...]
    draft: tuple[Opened, ...] = ()
    reduced_vocabulary: frozenset[int] | None = None


class MakePlan(Protocol):
    def __call__(self, strategy: str = "off", **changes: Any) -> Plan: ...


class MakeRunner(Protocol):
    def __call__(self, plan: Plan | None = None, content: bytes = b"weights") -> Runner: ...


def _section(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return base | {name: changes.pop(name) for name in list(changes) if name in base}


def plan_for(strategy: str = "off", **changes: Any) -> Plan:
    """A plan for the rogue engine; keyword arguments replace settings of its sections."""
    speculates = strategy != "off"
    pin = {"package": "power-rogue", "version": "1.0", "llama_cpp": "none"}
    graph = {"context": 512, "prefill_batch": 64, "rows": None}
    host: dict[str, Any] = {
        "threads": 1,
        "cpu_affinity": None,
        "process_priority": "normal",
        "require": [],
    }
    sampling = {"temperature": 0.0, "seed": 7, "max_tokens": 32}
    plan = Plan(
        version=1,
        revision=0,
        name="rogue",
        manifest=Source(name="rogue", sha256=DIGEST),
        target=Target(
            path="rogue.gguf",
            bytes=7,
            sha256=DIGEST,
            header=Header(
                architecture="rogue",
                file_type="F32",
                layers=1,
                width=8,
                vocabulary=512,
                context=512,
                tokenizer_model="none",
                pre_tokenizer="",
                vocabulary_sha256=DIGEST,
            ),
        ),
        speculation=Speculation.model_validate(
            {"requested": strategy, "strategy": strategy, "reason": "asked for"}
            | (
                {
                    "spec_draft_max": 3,
                    "spec_draft_min": 0,
                    "effective_snapshots": 3,
                    "rollback": "trim",
                }
                if speculates
                else {}
            )
        ),
        graph=Graph(
            shape="natural",
            batch=8 if speculates else None,
            flash_attention="on",
            cuda_graphs=True,
            backend_sampling=False,
            gpu_layers=0,
            main_gpu=0,
            **_section(graph, changes),
        ),
        host=Host(cuda_high_priority=False, **_section(host, changes)),
        sampling=Sampling(**_section(sampling, changes)),
        exactness=Exactness(level="rule"),
        engine=EnginePin(capabilities=[strategy], **_section(pin, changes)),
        lock=Lock(plan_sha256="1" * 64),
    )
    assert not changes
    return plan


@pytest.fixture
def make_plan() -> MakePlan:
    """`plan_for`."""
    return plan_for


@pytest.fixture
def rogue_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the rogue engine's distribution on the import path."""
    monkeypatch.syspath_prepend(str(ROGUE))


@pytest.fixture
def make_runner(
    rogue_installed: None, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeRunner]:
    """A runner of the rogue engine that is not entered yet."""
    monkeypatch.setenv("POWER_WORKER_TIMEOUT", "100")
    files: list[int] = []

    def make(plan: Plan | None = None, content: bytes = b"weights") -> Runner:
        fd = os.memfd_create("artifact")
        os.write(fd, content)
        files.append(fd)
        return Runner(plan or make_plan(), Artifacts((Opened(fd),)), backend="rogue")

    yield make
    for fd in files:
        os.close(fd)


@pytest.fixture
def open_descriptors() -> Callable[[], set[str]]:
    """What this process has open, as a set of descriptor numbers."""
    return lambda: set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names
