"""`power diff`: what changed, by consequence."""

from __future__ import annotations

import sys

import click

from power.cli.console import Verb, wants_color
from power.cli.options import fail_on_option, format_option
from power.diagnostics import ExitCode


@click.command("diff")
@click.argument("old")
@click.argument("new")
@format_option("text", "markdown", "json")
@click.option("--exit-code", is_flag=True, help="Exit 1 when anything differs.")
@fail_on_option
def command(old: str, new: str, fmt: str, exit_code: bool, fail_on: tuple[str, ...]) -> None:
    """Show what changed between OLD and NEW, and what it means.

    Both are manifests, profiles, plans or trust files; each is a path, or REV:path for a
    file as it is in a commit.
    """
    with Verb("diff", fmt) as verb:
        from power.review.consequences import Class
        from power.review.diff import diff
        from power.review.diff_output import render_json, render_markdown, render_text
        from power.review.documents import load_document
        from power.review.policy import refused

        found = diff(load_document(old), load_document(new))
        verb.data |= render_json(found)
        verb.note(found.warnings)
        if fmt == "markdown":
            verb.out(render_markdown(found))
        else:
            verb.out(render_text(found, color=wants_color(sys.stdout)))
        broken = tuple(refused([found], {Class(name) for name in fail_on}))
        verb.note(broken)
        if broken or (exit_code and found.changes):
            verb.answer(ExitCode.NO)
