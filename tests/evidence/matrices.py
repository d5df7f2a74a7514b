"""Quality matrices on the reference backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from power.evidence.bench import Arm, Bench
from power.evidence.executor import InOrder
from power.evidence.layout import Layout
from power.evidence.quality import matrix_bench, run_matrix
from power.evidence.quality_report import Matrix
from power.evidence.tasks.asking import Questions
from power.evidence.tasks.read import parse_tasks
from power.plan.model import Plan
from tests.evidence.conftest import KEY, Scripted
from tests.receipt.scripted import scripted_plan

TASKS = b"""\
{"id": "sum", "question": "What is 2 + 3?", "answer": "5", "scorer": "number"}
{"id": "pick", "question": "Which?", "choices": ["one", "two"], "answer": "B", "scorer": "choice"}
{"id": "word", "question": "Repeat: heron", "answer": "heron", "scorer": "text"}
{"id": "line", "question": "Repeat: a heron waits", "answer": "a heron waits", "scorer": "text"}
"""

ENDING = 'root ::= w w w w w "."\nw ::= [ab] [ab] [ab]'
"""A grammar whose texts end by themselves, and repeat themselves before."""


def ending_plan(strategy: str, **sampling: Any) -> Plan:
    """A plan whose texts no limit cuts."""
    return scripted_plan(strategy, grammar=ENDING, **sampling)


def asked(*, chat: bool) -> Questions:
    """Four tasks of every scorer, at most 24 tokens each."""
    return Questions(parse_tasks(TASKS, Path("t.jsonl")), chat, 24)


def matrix(
    scripted: Scripted,
    arms: Sequence[Arm] | None = None,
    *,
    questions: Questions | None = None,
    repetitions: int = 2,
) -> Bench:
    """The matrix `x.json` of `arms`, or of a plan and its control."""
    if arms is None:
        plan = ending_plan("prompt-lookup")
        arms = [scripted.arm("control", plan, control=True), scripted.arm("plan", plan)]
    layout = Layout(scripted.folder / "x.json")
    return matrix_bench(layout, arms, questions or asked(chat=True), repetitions)


def run(
    scripted: Scripted, bench: Bench, progress: Callable[[int, int], None] | None = None
) -> Matrix:
    """Run what is left of it."""
    return run_matrix(bench, InOrder(scripted.lanes(bench), bench.prompts, 0), KEY, progress)
