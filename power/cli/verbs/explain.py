"""`power explain`: a diagnostic code's page."""

from __future__ import annotations

import textwrap

import click

from power.cli.console import Verb
from power.cli.options import format_option
from power.diagnostics import CODES, Code, explain, fail


@click.command("explain")
@click.argument("code", required=False)
@format_option("human", "json")
def command(code: str | None, fmt: str) -> None:
    """Explain the diagnostic CODE (such as P203); without CODE, list them all."""
    with Verb("explain", fmt) as verb:
        if code is None:
            verb.data["codes"] = [{"code": c.code, "title": c.title} for c in CODES.values()]
            verb.out("\n".join(f"{c.code}  {c.title}" for c in CODES.values()))
            return
        entry = explain(code)
        if entry is None:
            fail(
                "P702",
                f"there is no diagnostic code `{code}`",
                hint="`power explain` lists every code",
            )
        verb.data |= {
            "code": entry.code,
            "title": entry.title,
            "code_exits": int(entry.exit),
            "text": entry.text,
        }
        verb.out(_page(entry))


def _page(entry: Code) -> str:
    body = "\n\n".join(
        textwrap.fill(" ".join(part.split()), 88) for part in entry.text.split("\n\n")
    )
    return f"{entry.code}: {entry.title}\nexit code {int(entry.exit)}\n\n{body}"
