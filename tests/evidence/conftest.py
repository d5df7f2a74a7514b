"""Benches on the reference backend: real workers, real receipts, no model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from power.evidence.bench import Arm, Bench, run_bench
from power.evidence.derive import Locked
from power.evidence.executor import InOrder, Lane
from power.evidence.layout import Layout
from power.evidence.limits import limits_of
from power.evidence.preflight import Preflight, Reading, judge
from power.evidence.report import Report
from power.plan.model import Plan
from power.runner.batch import Chat, Generator
from power.runner.literal import Rendered
from power.runner.prompts import parse_prompts
from tests.receipt import samples
from tests.receipt.scripted import open_runner, scripted_plan

KEY = samples.KEYS["ed25519"]
PROMPTS = b"""\
{"id": "sea", "prompt": "one two three one two three one two"}
{"prompt": "the sea the sea the", "max_tokens": 20, "seed": 9}
"""
QUIET = Reading(
    started="2026-08-23T10:11:12Z",
    interval_ms=500,
    cpu_percent=[1, 2],
    busy_processes=0,
    free_memory_bytes=1 << 40,
)


def seen(bench: Bench, reading: Reading = QUIET, *, overridden: bool = False) -> Preflight:
    """What a reading of the host comes to under the plans of `bench`."""
    limits = limits_of([arm.locked.plan for arm in bench.arms])
    return judge(reading, limits, overridden=overridden)


@dataclass
class Scripted:
    """Arms on the reference backend. `opened` lists the arm of each worker that was started."""

    folder: Path
    opened: list[str] = field(default_factory=list)

    def arm(self, name: str, plan: Plan, *, control: bool = False) -> Arm:
        return Arm(name, control, Locked(plan, samples.plan_bytes(plan)))

    def bench(self, arms: Sequence[Arm], name: str = "x.json", **changes: Any) -> Bench:
        data = changes.pop("data", PROMPTS)
        prompts = parse_prompts(
            data, self.folder / "p.jsonl", arms[0].locked.plan.sampling, chat=True
        )
        bench = Bench(
            layout=Layout(self.folder / name),
            arms=arms,
            prompts_data=data,
            prompts=prompts,
            rounds=2,
            warmup=1,
            natural=False,
        )
        return replace(bench, **changes)

    def lanes(self, bench: Bench, *, share: bool = False, **options: Any) -> list[Lane]:
        return [
            Lane(self._opener(arm, options), arm.control, arm.locked.data if share else None)
            for arm in bench.arms
        ]

    def _opener(self, arm: Arm, options: dict[str, Any]) -> Any:
        @contextmanager
        def open_() -> Iterator[tuple[Generator, Chat]]:
            self.opened.append(arm.name)
            with open_runner(arm.locked.plan, **options) as runner:
                yield runner, lambda said: Rendered("".join(m["content"] for m in said))

        return open_

    def run(
        self,
        bench: Bench,
        preflight: Callable[[], Preflight] | None = None,
        progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> Report:
        executor = InOrder(self.lanes(bench, **options), bench.prompts, bench.warmup)
        return run_bench(bench, executor, KEY, preflight or (lambda: seen(bench)), progress)


@pytest.fixture
def scripted(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path)


@pytest.fixture
def pair(scripted: Scripted) -> list[Arm]:
    """A plan and its control."""
    plan = scripted_plan("prompt-lookup")
    return [scripted.arm("control", plan, control=True), scripted.arm("plan", plan)]
