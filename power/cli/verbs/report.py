"""`power report`: a bench as Markdown or as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from power.cli.console import Verb
from power.cli.options import FILE, format_option
from power.diagnostics import escape


@click.command("report")
@click.argument("report", type=FILE)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Write it to FILE, a new one.")
@format_option("markdown", "html", "json")
def command(report: Path, output: Path | None, fmt: str) -> None:
    """Show the REPORT of a bench: speed by prompt, acceptance by position, widths and replays.

    The HTML page needs nothing beside it, and runs no script. What it shows is what the
    report says: `power evidence verify` checks that it follows from signed receipts.
    """
    with Verb("report", fmt) as verb:
        from power.evidence.comparing import read_report
        from power.evidence.outputs import ReportOutput
        from power.evidence.view import report_html, report_markdown
        from power.plan.files import write_atomic

        found, digest = read_report(report)
        verb.data |= ReportOutput(report=found).document()
        text = report_html(found, digest) if fmt == "html" else report_markdown(found, digest)
        if output is None:
            verb.out(text)
            return
        write_atomic(output, text.encode(), overwrite=False)
        verb.say(f"wrote {escape(str(output))}")
