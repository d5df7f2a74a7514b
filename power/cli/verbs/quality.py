"""`power quality`: plans against each other on scored tasks."""

from __future__ import annotations

from pathlib import Path

import click

from power.cli.console import RESUME, Verb
from power.cli.options import (
    FILE,
    artifact_roots,
    artifacts_option,
    count_option,
    format_option,
    key_option,
    output_option,
    passphrase_option,
    workers_options,
)
from power.diagnostics import ExitCode, escape


@click.command("quality")
@click.argument("locks", type=FILE, nargs=-1, required=True, metavar="BASE [CANDIDATE]...")
@click.option(
    "--control",
    is_flag=True,
    help="One more mode, the first: the first plan and shape with no proposer.",
)
@click.option(
    "--tasks",
    required=True,
    metavar="F.jsonl|SET",
    help="The tasks: a file that ends in `.jsonl`, in one of the forms of docs/reference/tasks.md, "
    "or a set that comes with Power: `small`.",
)
@count_option(
    "--repetitions",
    "Runs of each task in each mode. The modes take turns in being the first.",
    default=1,
    most=1000,
)
@count_option("--max-tokens", "At most N tokens for an answer; by default what the plans allow.")
@click.option(
    "--chat",
    is_flag=True,
    help="Ask through the model's chat template, instead of with text that ends in `Answer:`.",
)
@output_option(
    "REPORT",
    "Where the report goes, `NAME.quality.json` by default; the files that it rests on go "
    "beside it. An interrupted matrix goes on from there.",
)
@workers_options
@artifacts_option
@key_option
@passphrase_option
@format_option("human", "markdown", "json")
def command(
    locks: tuple[Path, ...],
    control: bool,
    tasks: str,
    repetitions: int,
    max_tokens: int | None,
    chat: bool,
    output: Path | None,
    workers: int,
    ray: str | None,
    artifacts: tuple[Path, ...],
    key: Path | None,
    passphrase_file: Path | None,
    fmt: str,
) -> None:
    """Run scored tasks under every plan, and hold each mode against the first one, the base.

    Modes take turns in cyclic order; each run has a signed receipt. A mode is eligible as
    production default only where all of its complete outputs equal those of a target-only
    base and no task is lost. Exit 1 names each gate that was missed.
    """
    with Verb("quality", fmt) as verb:
        from power.cli.certificates import Backing
        from power.cli.executors import executor
        from power.cli.lanes import Lanes
        from power.cli.signing import OwnKey
        from power.evidence.layout import Layout
        from power.evidence.outputs import QualityOutput
        from power.evidence.quality import matrix_bench, run_matrix
        from power.evidence.quality_view import matrix_markdown, matrix_text
        from power.evidence.tasks.asking import Questions
        from power.evidence.tasks.read import read_tasks

        asked = Questions(read_tasks(tasks), chat, max_tokens)
        own = OwnKey(key, passphrase_file)
        roots, backing = artifact_roots(artifacts), Backing(own.public)
        with Lanes(verb, locks, roots, backing, control=control) as lanes:
            layout = Layout(output or Path(f"{lanes.arms[-1].locked.plan.name}.quality.json"))
            bench = matrix_bench(layout, lanes.arms, asked, repetitions)
            private = own.private
            crew = executor(verb, lanes, bench.prompts, workers=workers, ray=ray)
            verb.when_interrupted = RESUME
            with verb.progress("runs") as progress:
                found = run_matrix(bench, crew, private, progress)
        verb.data |= QualityOutput.of(found, str(layout.report)).document()
        verb.out(matrix_markdown(found) if fmt == "markdown" else matrix_text(found))
        verb.say(f"report {escape(str(layout.report))}")
        missed = [finding for pair in found.pairs for finding in pair.findings()]
        if missed:
            verb.note(missed)
            verb.answer(ExitCode.NO)
