"""`power show`: a plan for a person, and for `git diff` as a textconv."""

from __future__ import annotations

from pathlib import Path

import click

from power.cli.console import Verb
from power.cli.options import FILE, format_option


@click.command("show")
@click.argument("lock", type=FILE)
@format_option("human", "json")
def command(lock: Path, fmt: str) -> None:
    """Show the plan LOCK for a person. Its digest is checked."""
    with Verb("show", fmt) as verb:
        from power.plan.lock import load
        from power.plan.show import show_text

        plan = load(lock)
        verb.data["plan"] = plan.model_dump(mode="json", exclude_none=True)
        verb.out(show_text(plan))
