"""The reference backend through the runner: a real second engine in a real worker."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import power
from power.diagnostics import PowerError
from power.runner.runner import Runner
from power.runner.types import Request
from tests.runner.conftest import Artifacts, MakePlan, Opened

PROMPT = Request(text="one two one two")


@pytest.fixture
def artifact() -> Iterator[Artifacts]:
    """A file that no engine could load; the reference backend never reads it."""
    fd = os.memfd_create("artifact")
    yield Artifacts((Opened(fd),))
    os.close(fd)


def runner(
    make_plan: MakePlan, artifact: Artifacts, strategy: str = "prompt-lookup", **options: int
) -> Runner:
    plan = make_plan(
        strategy, package="power-scripted", version=power.__version__, llama_cpp="none"
    )
    return Runner(plan, artifact, backend="scripted", extra={"scripted": options})


@pytest.mark.parametrize("strategy", ["prompt-lookup", "ngram-context"])
def test_a_run_and_its_control_write_the_same(
    make_plan: MakePlan, artifact: Artifacts, strategy: str
) -> None:
    parts: list[bytes] = []
    with runner(make_plan, artifact, strategy) as engine:
        record = engine.generate(PROMPT, parts.append)
        control = engine.generate(Request(text=PROMPT.text, control=True))
    assert b"".join(parts) == record.text == control.text
    assert record.ids == control.ids
    assert (record.strategy, control.strategy) == (strategy, "off")
    assert control.first_tokens == 1 <= record.first_tokens
    assert record.counters["drafted"] > 0 == control.counters["drafted"]
    assert sum(record.phases_us.values()) == record.wall_us
    assert record.engine.package == "power-scripted"


@pytest.mark.parametrize("fault", ["error_at_pass", "oom_at_pass", "crash_at_pass", "kill_at_pass"])
def test_a_failing_engine_is_exit_4_and_the_text_so_far_is_kept(
    make_plan: MakePlan, artifact: Artifacts, fault: str
) -> None:
    whole: list[bytes] = []
    with runner(make_plan, artifact) as engine:
        engine.generate(PROMPT, whole.append)
    parts: list[bytes] = []
    with (
        pytest.raises(PowerError) as failed,
        runner(make_plan, artifact, "prompt-lookup", **{fault: 4}) as engine,
    ):
        engine.generate(PROMPT, parts.append)
    assert failed.value.exit_code == 4
    assert parts == whole[:3]
