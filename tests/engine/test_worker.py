"""llama.cpp behind the runner: a real engine in a real worker process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from power.backends.llamacpp import BACKEND
from power.diagnostics import ExitCode, PowerError
from power.plan.model import Plan
from power.runner.runner import Runner
from power.runner.types import Request
from tests.runner.conftest import Artifacts, MakePlan, Opened
from tests.runner.conftest import make_plan as make_plan  # noqa: PLC0414 - a fixture

Models = Mapping[str, tuple[Path, ...]]
PROMPT = "the cat and the dog and the cat and the"


@contextmanager
def opened(models: Models, target: str, draft: str | None = None) -> Iterator[Artifacts]:
    """Fixture models as verified artifacts."""
    with ExitStack() as files:

        def opened_files(name: str) -> tuple[Opened, ...]:
            return tuple(
                Opened(files.enter_context(path.open("rb")).fileno()) for path in models[name]
            )

        yield Artifacts(opened_files(target), () if draft is None else opened_files(draft))


def llama(make_plan: MakePlan, strategy: str = "off") -> Plan:
    facts = BACKEND.describe()
    return make_plan(
        strategy, package=facts.package, version=facts.version, llama_cpp=facts.llama_cpp
    )


def test_a_speculative_run_and_its_control(models: Models, make_plan: MakePlan) -> None:
    plan = llama(make_plan, "prompt-lookup")
    fractions: list[float] = []
    pieces: list[bytes] = []
    with (
        opened(models, "target") as artifacts,
        Runner(plan, artifacts, progress=fractions.append) as runner,
    ):
        fast = runner.generate(Request(PROMPT), pieces.append)
        control = runner.generate(Request(PROMPT, control=True))
        again = runner.generate(Request(PROMPT))
    assert fractions[-1] == 1.0
    assert fast.ids == control.ids == again.ids
    assert fast.prompt_ids == control.prompt_ids
    assert b"".join(pieces) == fast.text
    assert (fast.strategy, control.strategy) == ("prompt-lookup", "off")
    assert fast.counters["drafted"] > 0 == control.counters["drafted"]
    assert "libllama" in " ".join(fast.engine.libraries)
    assert sum(fast.phases_us.values()) == fast.wall_us


def test_a_draft_model_from_its_own_files(models: Models, make_plan: MakePlan) -> None:
    plan = llama(make_plan, "draft-model")
    with opened(models, "target", "draft") as artifacts, Runner(plan, artifacts) as runner:
        fast = runner.generate(Request(PROMPT))
        control = runner.generate(Request(PROMPT, control=True))
    assert fast.ids == control.ids
    assert fast.counters["accepted"] > 0


def test_weights_that_are_no_numbers_are_refused_by_name(
    models: Models, make_plan: MakePlan
) -> None:
    with (
        opened(models, "nan") as artifacts,
        pytest.raises(PowerError) as caught,
        Runner(llama(make_plan), artifacts),
    ):
        pass
    (diagnostic,) = caught.value.diagnostics
    assert "blk.1.ffn_down.weight" in str(diagnostic.found)
    assert caught.value.exit_code is ExitCode.CANNOT_JUDGE


def test_a_prompt_longer_than_the_context_names_both_numbers(
    models: Models, make_plan: MakePlan
) -> None:
    with opened(models, "target") as artifacts, Runner(llama(make_plan), artifacts) as runner:
        with pytest.raises(PowerError, match=r"the prompt has \d+ tokens, the context holds 512"):
            runner.generate(Request("x" * 600))
        assert runner.generate(Request(PROMPT, max_tokens=2)).finish == "length"
