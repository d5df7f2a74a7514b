"""A package run again: claims that repeat, and the first that does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.evidence import package
from power.evidence.bench import Arm
from power.evidence.replaying import OpenPlan, replay_package
from power.plan.lock import load
from power.receipt.trust import trust_in
from power.runner.literal import Rendered
from tests.evidence.conftest import KEY, Scripted
from tests.receipt.scripted import open_runner

TRUST = trust_in(KEY.public_key(), "mine")


def opener(folder: Path, **options: Any) -> OpenPlan:
    @contextmanager
    def open_plan(lock: str, _control: bool) -> Iterator[Any]:
        with open_runner(load(folder / lock), **options) as runner:
            yield runner, lambda messages: Rendered("".join(m["content"] for m in messages))

    return open_plan


@pytest.fixture
def packed(scripted: Scripted, pair: list[Arm]) -> package.Package:
    scripted.run(scripted.bench(pair, warmup=0, rounds=1))
    return package.pack(scripted.folder, KEY)


def test_every_arm_and_prompt_is_run_once_more(packed: package.Package) -> None:
    steps: list[tuple[int, int]] = []
    again = replay_package(packed, TRUST, opener(packed.folder), lambda *step: steps.append(step))
    assert (again.samples, again.notes) == (4, ())
    assert steps == [(n, 4) for n in range(1, 5)]


def test_a_claim_that_does_not_repeat_is_named(packed: package.Package) -> None:
    with pytest.raises(PowerError) as refused:
        replay_package(packed, TRUST, opener(packed.folder, seed=5))
    (only,) = refused.value.diagnostics
    assert only.code == "P641"
    assert only.place == "x.receipts/001-control-0001.sigstore.json: arm `control`, prompt `sea`"
    assert refused.value.exit_code is ExitCode.NO
