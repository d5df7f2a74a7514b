"""`power bench`: time plans against each other on prompts, and report what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from power.cli.console import RESUME, Verb
from power.cli.options import (
    FILE,
    anyway_option,
    artifact_roots,
    artifacts_option,
    count_option,
    format_option,
    key_option,
    output_option,
    passphrase_option,
)
from power.diagnostics import counted, escape

if TYPE_CHECKING:
    from power.evidence.report import Report


@click.command("bench")
@click.argument("locks", type=FILE, nargs=-1, required=True, metavar="LOCK...")
@click.option(
    "--prompts",
    type=FILE,
    required=True,
    metavar="F.jsonl",
    help="The prompts, as `power run --prompts` reads them.",
)
@click.option(
    "--control",
    is_flag=True,
    help="One more arm, the first: the first plan and shape with no proposer.",
)
@count_option(
    "--samples",
    "Samples of each prompt in each arm, one a round; every round has fresh workers.",
    default=5,
    most=1000,
)
@count_option(
    "--warmup",
    "Runs of a worker's first prompt that are not counted.",
    default=1,
    least=0,
    most=100,
)
@click.option(
    "--natural",
    is_flag=True,
    help="Let texts end where they end, instead of at their limit of tokens.",
)
@output_option(
    "REPORT",
    "Where the report goes, `NAME.bench.json` by default; the files that it rests on go "
    "beside it. An interrupted bench goes on from there.",
)
@anyway_option
@artifacts_option
@key_option
@passphrase_option
@format_option("human", "json")
def command(
    locks: tuple[Path, ...],
    prompts: Path,
    control: bool,
    samples: int,
    warmup: int,
    natural: bool,
    output: Path | None,
    anyway: bool,
    artifacts: tuple[Path, ...],
    key: Path | None,
    passphrase_file: Path | None,
    fmt: str,
) -> None:
    """Time the plans LOCK... on prompts: arms alternated, a signed receipt for each sample.

    A plan and its control take turns in one worker, prompt by prompt, a fresh one each round.
    The host is watched first: one that is not quiet enough is not measured on.
    Texts that end early, outputs that do not repeat, and an engine or a host that
    changes under way fail the bench.
    """
    with Verb("bench", fmt) as verb:
        from power.cli.certificates import Backing
        from power.cli.lanes import Lanes
        from power.cli.signing import OwnKey
        from power.evidence.bench import Bench, read_inputs, run_bench
        from power.evidence.executor import InOrder
        from power.evidence.layout import Layout
        from power.evidence.limits import preflight

        own = OwnKey(key, passphrase_file)
        roots, backing = artifact_roots(artifacts), Backing(own.public)
        with Lanes(verb, locks, roots, backing, control=control) as lanes:
            plans = [arm.locked.plan for arm in lanes.arms]
            data, asked = read_inputs(prompts, plans)
            bench = Bench(
                layout=Layout(output or Path(f"{plans[0].name}.bench.json")),
                arms=lanes.arms,
                prompts_data=data,
                prompts=asked,
                rounds=samples,
                warmup=warmup,
                natural=natural,
            )
            private = own.private
            verb.when_interrupted = RESUME
            with verb.progress("samples") as progress:
                report = run_bench(
                    bench,
                    InOrder(lanes.lanes, asked, warmup),
                    private,
                    lambda: preflight(plans, overridden=anyway),
                    progress,
                )
        _show(verb, report, bench.layout.report)


def _show(verb: Verb, report: Report, path: Path) -> None:
    from power.evidence.outputs import BenchOutput

    verb.data |= BenchOutput(report=str(path), arms=report.figures).document()
    for figures in report.figures:
        rates = figures.decode_tok_s
        steady = (
            f"{rates.median:>10} tokens/s (min {rates.minimum})" if rates else "        no rate"
        )
        accepted = "" if figures.acceptance is None else f", acceptance {figures.acceptance}"
        verb.out(
            f"{figures.arm:<20}{steady}, {figures.tokens_per_pass} tokens a pass{accepted}, "
            f"{counted(figures.replays, 'replay')}"
        )
    verb.say(f"report {escape(str(path))}")
