"""`power review`: a change to manifests, profiles and plans, for those who have to judge it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from power.cli.console import Verb, wants_color
from power.cli.options import FILE, fail_on_option, format_option
from power.diagnostics import ExitCode


@click.command("review")
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@click.option(
    "--base",
    required=True,
    metavar="REV",
    help="What to compare the work tree with: where HEAD's history left that of REV.",
)
@fail_on_option
@click.option(
    "--summary",
    type=FILE,
    metavar="FILE",
    help="Append the review to FILE as Markdown, fit for a GitHub job summary (1 MiB).",
)
@format_option("human", "markdown", "json", "github")
def command(
    paths: tuple[str, ...],
    base: str,
    fail_on: tuple[str, ...],
    summary: Path | None,
    fmt: str,
) -> None:
    """Review what a branch does to manifests, profiles, plans and trust files.

    Says what each change means, which plans are stale, edited or missing, and which measured
    evidence lost its report or plan. Reads files and git alone: no artifact, no engine.

    PATHS are git's pathspecs from the repository's root, such as `:!tests`. Exit 1: there is a
    defect.
    """
    with Verb("review", fmt) as verb:
        from power.plan.files import append_text
        from power.review.annotations import annotated
        from power.review.consequences import Class
        from power.review.policy import refused
        from power.review.review import review
        from power.review.review_markdown import SUMMARY_LIMIT, review_markdown
        from power.review.review_output import review_json, review_text

        found = review(Path(), base, paths)
        broken = tuple(refused(found.diffs, {Class(name) for name in fail_on}))
        found = found.with_problems(broken)
        verb.data |= review_json(found)
        if summary is not None:
            append_text(summary, review_markdown(found, SUMMARY_LIMIT))
        if fmt == "markdown":
            verb.out(review_markdown(found))
        elif fmt == "github":
            verb.out(annotated(found.problems))
        else:
            verb.note(found.problems)
            verb.out(review_text(found, color=wants_color(sys.stdout)))
        if found.errors:
            verb.answer(ExitCode.NO)
