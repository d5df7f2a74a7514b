"""`power report`: a bench or a quality matrix as Markdown or as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from power.cli.console import Verb
from power.cli.options import FILE, format_option, output_option
from power.diagnostics import escape


@click.command("report")
@click.argument("report", type=FILE)
@output_option("FILE", "Write it to FILE, a new one.")
@format_option("markdown", "html", "json")
def command(report: Path, output: Path | None, fmt: str) -> None:
    """Show the REPORT of a bench, or of a quality matrix.

    Of a bench: speed by prompt, acceptance by position, widths and replays. Of a matrix:
    what is equal, what was gained and lost, every gate, and every answer.

    The HTML page needs nothing beside it, and runs no script. What it shows is what the
    report says: `power evidence verify` checks that it follows from signed receipts.
    """
    with Verb("report", fmt) as verb:
        from power.evidence.outputs import ReportOutput
        from power.evidence.pages import read_page
        from power.plan.files import write_atomic

        page = read_page(report)
        verb.data |= ReportOutput(report=page.report).document()
        text = page.html() if fmt == "html" else page.markdown()
        if output is None:
            verb.out(text)
            return
        write_atomic(output, text.encode(), overwrite=False)
        verb.say(f"wrote {escape(str(output))}")
