"""No setting that a plan locks is ignored without a word."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest

from power.backends.interface import EngineConfig, EngineIdentity, SamplingConfig
from power.backends.llamacpp import BACKEND
from power.backends.llamacpp.effects import remarks, without_effect
from power.plan.model import Graph, Host, Plan
from power.runner.messages import Load
from power.runner.settings import ineffective, load_command
from tests.runner.conftest import MakePlan
from tests.runner.conftest import make_plan as make_plan  # noqa: PLC0414 - a fixture

CHANGES: dict[str, Any] = {
    "graph.batch": 9,
    "graph.rows": 5,
    "graph.context": 256,
    "graph.prefill_batch": 16,
    "graph.micro_batch": 8,
    "graph.flash_attention": "off",
    "graph.repack": "off",
    "graph.cuda_graphs": False,
    "graph.backend_sampling": True,
    "graph.gpu_layers": 3,
    "graph.main_gpu": 1,
    "host.threads": 2,
    "host.cpu_affinity": [0],
    "host.process_priority": "low",
    "host.cuda_high_priority": True,
}
"""A setting, and another value of it than the plan has."""

BY_OTHERS = {
    "graph.shape",  # a plan without `rows` has the natural one
    "host.require",  # checked against the devices that the engine reports
}
IN_THE_WORKER = {"affinity", "nice"}  # `confine.apply_host`


def test_every_setting_is_tried_here() -> None:
    fields = {f"graph.{name}" for name in Graph.model_fields}
    fields |= {f"host.{name}" for name in Host.model_fields}
    assert fields == {*CHANGES, *BY_OTHERS}


class Reading:
    """An engine's configuration that knows which of its fields were looked at."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self._config, name)


@pytest.fixture
def opened(lab: Any) -> tuple[EngineIdentity, set[str]]:
    """Who the engine is, and what it looks at while it opens and begins a request."""
    with lab.fds("target") as target:
        config = EngineConfig(
            target=target, strategy="prompt-lookup", draft_max=3, context=128, threads=1
        )
        reading = Reading(config)
        engine = BACKEND.open(cast(EngineConfig, reading), lambda _: None)
    lab.engines.append(engine)
    engine.session(SamplingConfig(), control=False)
    return engine.identity, reading.read


def load(plan: Plan) -> Load:
    return load_command(
        plan,
        backend="llamacpp",
        target=(3,),
        draft=(),
        threads=plan.host.threads or 1,
        extra={},
        beat_s=1.0,
    )


def changed(plan: Plan, key: str) -> Plan:
    section, name = key.split(".")
    part = getattr(plan, section).model_copy(update={name: CHANGES[key]})
    return plan.model_copy(update={section: part})


@pytest.mark.parametrize("key", CHANGES)
def test_it_is_heeded_or_named(
    opened: tuple[EngineIdentity, set[str]], make_plan: MakePlan, key: str
) -> None:
    identity, read = opened
    before, after = load(make_plan()), load(changed(make_plan(), key))
    told = {name for name in IN_THE_WORKER if getattr(before, name) != getattr(after, name)}
    old, new = asdict(before.engine), asdict(after.engine)
    told |= {name for name in new if old[name] != new[name]}
    assert told, "the worker is not told"
    assert key in identity.without_effect or told <= read | IN_THE_WORKER


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ([], ()),  # at their defaults they ask for nothing
        (["graph.main_gpu"], ("`graph.main_gpu`: no effect, there is no GPU",)),
        (
            ["graph.gpu_layers", "graph.main_gpu", "host.cuda_high_priority"],
            (
                "`graph.gpu_layers`, `graph.main_gpu`: no effect, there is no GPU",
                "`host.cuda_high_priority`: no effect, no priority",
            ),
        ),
        (["graph.backend_sampling"], ()),
    ],
)
def test_what_is_asked_in_vain_is_said_once_for_each_reason(
    make_plan: MakePlan, changes: list[str], found: tuple[str, ...]
) -> None:
    plan = make_plan()
    for key in changes:
        plan = changed(plan, key)
    why_not = {"graph.gpu_layers": "there is no GPU", "graph.main_gpu": "there is no GPU"}
    why_not["host.cuda_high_priority"] = "no priority"
    why_not["mood.good"] = "this is no setting"  # the worker is not trusted
    identity = EngineIdentity("p", "1", "none", {}, ["CPU"], "", without_effect=why_not)
    assert ineffective(plan, identity) == found


def test_a_choice_on_the_device_is_a_greedy_one(make_plan: MakePlan) -> None:
    identity = EngineIdentity("p", "1", "none", {}, ["CPU"], "")
    plan = changed(make_plan(temperature=0.5), "graph.backend_sampling")
    assert ineffective(plan, identity) == (
        "`graph.backend_sampling`: no effect, the plan's sampling is not greedy",
    )


@pytest.mark.parametrize(
    ("has_gpu", "devices", "settings"),
    [
        (False, ["CPU (x)"], {"cuda_graphs", "gpu_layers", "main_gpu", "cuda_high_priority"}),
        (True, ["CUDA0 (x)", "CPU (x)"], {"cuda_high_priority"}),
        (True, ["Vulkan0 (x)", "CPU (x)"], {"cuda_graphs", "cuda_high_priority"}),
    ],
)
def test_what_a_build_lacks(has_gpu: bool, devices: list[str], settings: set[str]) -> None:
    found = without_effect(has_gpu=has_gpu, devices=devices)
    assert {key.partition(".")[2] for key in found} == settings


def test_a_build_with_amx_is_told_apart() -> None:
    assert remarks("CPU : AVX512 = 1 | REPACK = 1", "0.3.36") == ()
    (remark,) = remarks("CPU : AMX_INT8 = 1 | REPACK = 1", "0.3.36")
    assert "docs/adr/0005" in remark
    assert remark.endswith("llama-cpp-python==0.3.36")


def test_the_decision_record_holds_the_command() -> None:
    (remark,) = remarks("AMX_INT8 = 1", "0.3.36")
    page = Path(__file__).parents[2] / "docs/adr/0005-plain-weight-layouts-beside-amx.md"
    assert remark.partition("without: ")[2] in page.read_text("utf-8")
