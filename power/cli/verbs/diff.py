"""`power diff`: what changed, by consequence."""

from __future__ import annotations

import click

from power.cli.console import Verb
from power.cli.options import format_option
from power.diagnostics import ExitCode


@click.command("diff")
@click.argument("old")
@click.argument("new")
@format_option("text", "markdown", "json")
@click.option("--exit-code", is_flag=True, help="Exit 1 when anything differs.")
def command(old: str, new: str, fmt: str, exit_code: bool) -> None:
    """Show what changed between OLD and NEW, two manifests, profiles or plans.

    Each is a path, or REV:path for a file as it is in a commit.
    """
    with Verb("diff", fmt) as verb:
        from power.plan.diff import diff, load_document
        from power.plan.diff_render import render_json, render_markdown, render_text

        found = diff(load_document(old), load_document(new))
        verb.data |= render_json(found)
        verb.out(render_markdown(found) if fmt == "markdown" else render_text(found))
        if exit_code and found.changes:
            verb.answer(ExitCode.NO)
