"""`power tune`: measure what passes cost and what is accepted, and write the profile that pays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from power.cli.console import Verb
from power.cli.options import (
    FILE,
    anyway_option,
    artifact_roots,
    artifacts_option,
    count_option,
    format_option,
    output_option,
)
from power.diagnostics import escape

if TYPE_CHECKING:
    from power.evidence.session import Tuned


def _counts(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> frozenset[int] | None:
    """`1,2,8` as row counts."""
    try:
        return None if value is None else frozenset(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter("row counts with commas between them, such as 1,2,3") from None


@click.command("tune")
@click.argument("manifest", type=FILE)
@click.option(
    "--prompts",
    type=FILE,
    metavar="F.jsonl",
    help="What to measure acceptance on, as `power run --prompts` reads it; by default 14 prompts "
    "of copying, code, prose, maths and several languages.",
)
@output_option(
    "PROFILE",
    "Where the profile goes, `NAME-tuned.toml` by default; report and trace go beside it.",
)
@count_option("--widest", "The largest proposal to consider.", default=11, most=63, metavar="K")
@click.option(
    "--rows",
    callback=_counts,
    metavar="LIST",
    help="Row counts that passes may have, such as 1,2,3: those whose rows agree bit for bit.",
)
@count_option(
    "--samples",
    "Runs of each prompt in each arm when the chosen setting is measured.",
    default=3,
    most=100,
)
@anyway_option
@artifacts_option
@format_option("human", "json")
def command(
    manifest: Path,
    prompts: Path | None,
    output: Path | None,
    widest: int,
    rows: frozenset[int] | None,
    samples: int,
    anyway: bool,
    artifacts: tuple[Path, ...],
    fmt: str,
) -> None:
    """Find the fastest setting for MANIFEST on this host, and write it as a profile.

    Passes are timed by their rows, proposals by their length, acceptance by position on
    the prompts. Every setting is then simulated; the best is measured against target-only.
    Where nothing pays, the profile says `off`.
    """
    with Verb("tune", fmt) as verb:
        from power.backends.registry import backend
        from power.cli.lanes import open_plan
        from power.evidence.limits import preflight
        from power.evidence.outputs import TuneOutput
        from power.evidence.preflight import require_quiet
        from power.evidence.session import Files, tune
        from power.evidence.tuned import check_open, costs_part
        from power.evidence.tuning import Tuning, widest_plan
        from power.manifest.effective import load_effective
        from power.manifest.shipped import prompts_path
        from power.plan.files import check_new, write_new
        from power.receipt.digests import sha256
        from power.runner.prompts import parse_prompts, prompts_bytes

        effective = load_effective(manifest, None)
        check_open(effective)
        files = Files(output or Path(f"{effective.name}-tuned.toml"))
        for path in (files.profile, files.report, files.trace):
            check_new(path)
        asked = prompts or prompts_path("tuning")
        data, roots = prompts_bytes(asked), artifact_roots(artifacts)
        tuning = Tuning(
            effective, manifest, roots, backend().describe(), (), widest=widest, rows=rows
        )
        plan = widest_plan(tuning)
        quiet = preflight([plan], overridden=anyway)
        require_quiet(quiet, str(manifest))
        found = tune(
            tuning.on(parse_prompts(data, asked, plan.sampling, chat=plan.target.header.chats)),
            plan,
            lambda chosen: open_plan(chosen, manifest, roots),
            verb.progress,
            samples=samples,
            quiet=quiet,
            prompts_sha256=sha256(data),
        )
        write_new(files.contents(found))
        better = found.without_draft
        answer = TuneOutput(
            profile=str(files.profile),
            report=str(files.report),
            trace=str(files.trace),
            cost=costs_part(found.recorded.cost),
            chosen=None if found.chosen is None else found.chosen.prediction(),
            without_draft=None if better is None else better.prediction(),
            predicted=found.predicted,
            measured=found.measured,
            by_prompt=list(found.compared),
        )
        verb.data |= answer.document()
        _show(verb, found)
        verb.say(f"wrote {escape(str(files.profile))}")
        if better is not None:
            setting = better.candidate.setting
            verb.say(
                f"{setting.strategy}, K {setting.draft_max}, {setting.controller} width, is "
                f"predicted to come to {better.mean}: for a manifest without `[draft]`"
            )


def _show(verb: Verb, tuned: Tuned) -> None:
    cost, chosen = tuned.recorded.cost, tuned.chosen
    passes = "  ".join(f"{rows}:{spent}" for rows, spent in cost.rows.items())
    verb.out(f"passes by rows  {passes}")
    turns = f"{cost.rebuild} more, and {cost.refill} for each row less"
    verb.out(f"another row count than before costs {turns}")
    if tuned.recorded.times.drafts:
        verb.out(f"drafting        {cost.draft_call} and {cost.draft_step} a token")
    if chosen is None:
        verb.out("off: nothing pays")
        return
    setting = chosen.candidate.setting
    verb.out(f"best            {setting.strategy}, K {setting.draft_max}, {setting.controller}")
    verb.out(f"{'prompt':<20}{'predicted':>10}{'measured':>10}")
    for one in tuned.compared:
        verb.out(
            f"{escape(one.prompt):<20}{one.predicted:>10}{one.measured:>10}"
            f"{'' if one.equal else '  other output'}"
        )
    verb.out(f"{'geometric mean':<20}{tuned.predicted:>10}{tuned.measured:>10}")
