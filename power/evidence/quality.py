"""Running a quality matrix, and deriving its report again from its files."""

from __future__ import annotations

from collections.abc import Sequence

from power.diagnostics import fail
from power.evidence.bench import Arm, Bench, Progress, report_bytes, take
from power.evidence.derive import Read, gather, reader, same_file
from power.evidence.executor import Executor
from power.evidence.layout import Layout
from power.evidence.matrix import build_matrix
from power.evidence.parts import FileRef
from power.evidence.quality_report import Matrix
from power.evidence.tasks.asking import Questions
from power.evidence.tasks.read import parse_tasks
from power.plan.files import write_atomic
from power.receipt.digests import sha256
from power.receipt.keys import PrivateKey
from power.receipt.trust import Trust
from power.runner.prompts import parse_prompts
from power.runner.request import check_request
from power.runner.types import Request


def matrix_bench(layout: Layout, modes: Sequence[Arm], asked: Questions, repetitions: int) -> Bench:
    """The runs of a matrix: every mode on every task, in cyclic order, each text to its own end.

    modes: at least two; the first one is the base. Raises PowerError: P704 for fewer;
    P512 where a plan allows fewer tokens than are asked for, P560 where its model has no
    chat template and the tasks are asked in a chat.
    """
    if len(modes) < 2:  # noqa: PLR2004 - a base and a candidate
        fail(
            "P704",
            "a plan alone has nothing to be held against",
            expected="two plans, or one with its control",
            hint="add `--control`, or give the base's plan first",
        )
    for mode in modes:
        if asked.chat and not mode.locked.plan.target.header.chats:
            fail(
                "P560",
                "the model has no chat template, and `--chat` asks through it",
                place=f"plan `{mode.locked.plan.name}`",
                hint="run without `--chat`: tasks are then asked as text",
            )
        check_request(Request("-", max_tokens=asked.max_tokens), mode.locked.plan.sampling)
    data, sampling = asked.prompts(), modes[0].locked.plan.sampling
    return Bench(
        layout=layout,
        arms=modes,
        prompts_data=data,
        prompts=parse_prompts(data, layout.path(layout.prompts), sampling, chat=True),
        rounds=repetitions,
        warmup=0,
        natural=True,
        tasks=asked,
    )


def run_matrix(
    bench: Bench, executor: Executor, key: PrivateKey, progress: Progress | None = None
) -> Matrix:
    """Run what is left of a `matrix_bench`, write its report, and return it.

    Raises as `take`; nothing is timed, so the host need not be quiet.
    """
    layout = bench.layout
    trust = take(bench, executor, key, None, progress)
    made = derive_matrix(layout, reader(layout.folder), trust)
    write_atomic(layout.report, report_bytes(made), overwrite=False)
    return made


def derive_matrix(layout: Layout, read: Read, trust: Trust) -> Matrix:
    """The matrix that follows from the files of `layout`.

    Raises PowerError as `gather`; P850 also where the tasks are not those of the journal,
    or the prompts not those that the tasks make.
    """
    sources = gather(layout, read, trust, "tasks")
    line = sources.design.tasks
    if line is None:
        raise ValueError("a journal of tasks without its tasks was let through")
    data = read(layout.tasks)
    same_file(layout.tasks, line.sha256, sha256(data))
    tasks = parse_tasks(data, layout.path(layout.tasks))
    asked = Questions(tasks, line.chat, line.max_tokens)
    same_file(layout.prompts, sha256(asked.prompts()), sources.prompts_file.sha256)
    return build_matrix(sources, asked, FileRef(file=layout.tasks, sha256=line.sha256))
