"""`power inspect`: a GGUF file's header facts and the draft contracts that hold."""

from __future__ import annotations

from pathlib import Path

import click

from power.cli.console import Verb
from power.cli.options import FILE, format_option

KINDS = ("draft-model", "mtp", "dflash", "dflash2", "dspark", "eagle3")


@click.command("inspect")
@click.argument("file", type=FILE)
@click.option("--kind", type=click.Choice(KINDS), help="Check FILE as a draft of this kind.")
@click.option("--target", type=FILE, metavar="FILE", help="The target that FILE is a draft for.")
@format_option("human", "json")
def command(file: Path, kind: str | None, target: Path | None, fmt: str) -> None:
    """Show what FILE.gguf holds, and check it as a target or as a draft.

    Only the header is read; no native code sees the file.
    """
    with Verb("inspect", fmt) as verb:
        from power.artifact.inspection import inspect, render_text

        report = inspect(file, kind, target)
        verb.data |= report
        verb.out(render_text(report))
