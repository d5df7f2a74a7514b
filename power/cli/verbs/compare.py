"""`power compare`: one arm against another, with gates."""

from __future__ import annotations

from pathlib import Path

import click

from power.cli.console import Verb
from power.cli.options import DECIMAL, FILE, format_option, output_option
from power.diagnostics import ExitCode, escape


@click.command("compare")
@click.argument("base", type=FILE)
@click.argument("candidate", type=FILE, required=False)
@click.option("--base", "base_arm", metavar="ARM", help="The arm of BASE.")
@click.option("--candidate", "candidate_arm", metavar="ARM", help="The arm of CANDIDATE.")
@click.option(
    "--min-speedup",
    type=DECIMAL,
    default="1",
    show_default=True,
    metavar="R",
    help="Gate: the median over prompts of candidate over base, in steady decoding.",
)
@click.option(
    "--min-lower", type=DECIMAL, metavar="R", help="Gate: the lower end of its 95% interval."
)
@click.option(
    "--min-sample-speedup",
    type=DECIMAL,
    metavar="R",
    help="Gate: every sample, over the base's median of its prompt.",
)
@click.option(
    "--min-rate", type=DECIMAL, metavar="X", help="Gate: the candidate's median tokens/s."
)
@click.option(
    "--min-sample-rate", type=DECIMAL, metavar="X", help="Gate: tokens/s of its slowest sample."
)
@click.option("--allow-divergence", is_flag=True, help="Outputs need not be equal.")
@click.option("--allow-busy-host", is_flag=True, help="Take what was measured with --anyway.")
@output_option("FILE", "Write the comparison to FILE as well.")
@format_option("human", "markdown", "json")
def command(
    base: Path,
    candidate: Path | None,
    base_arm: str | None,
    candidate_arm: str | None,
    min_speedup: str,
    min_lower: str | None,
    min_sample_speedup: str | None,
    min_rate: str | None,
    min_sample_rate: str | None,
    allow_divergence: bool,
    allow_busy_host: bool,
    output: Path | None,
    fmt: str,
) -> None:
    """Compare an arm of a bench with another, as the candidate with its base.

    Of BASE alone, the last arm is compared with the first (a plan with its control); of
    two reports, the last arm of each. Everything but the strategy has to be the same, and
    so has every output. Exit 1 names each gate that was missed.
    """
    with Verb("compare", fmt) as verb:
        from power.evidence.compare import Asked
        from power.evidence.comparing import compare_files, write_comparison
        from power.evidence.outputs import CompareOutput
        from power.evidence.render import comparison_markdown, comparison_text

        found = compare_files(
            base,
            candidate,
            Asked(
                min_speedup=min_speedup,
                min_lower=min_lower,
                min_sample_speedup=min_sample_speedup,
                min_rate=min_rate,
                min_sample_rate=min_sample_rate,
                allow_divergence=allow_divergence,
                allow_busy_host=allow_busy_host,
            ),
            base_arm=base_arm,
            candidate_arm=candidate_arm,
        )
        if output is not None:
            write_comparison(found, output)
            verb.say(f"wrote {escape(str(output))}")
        verb.data |= CompareOutput(comparison=found).document()
        verb.out(comparison_markdown(found) if fmt == "markdown" else comparison_text(found))
        if not found.passed:
            verb.note(found.findings())
            verb.answer(ExitCode.NO)
