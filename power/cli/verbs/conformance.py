"""`power conformance`: whether this installation refuses what has to be refused."""

from __future__ import annotations

import click

from power.cli.console import Verb
from power.cli.options import format_option
from power.diagnostics import ExitCode, escape


@click.command("conformance")
@format_option("human", "json")
def command(fmt: str) -> None:
    """Hold this installation against the vectors that ship with it. Exit 1: one went wrong."""
    with Verb("conformance", fmt) as verb:
        from dataclasses import asdict

        from power.evidence.conformance import check_conformance

        done = check_conformance()
        total, wrong = sum(done.total.values()), len(done.misses)
        verb.data |= {
            "right": total - wrong,
            "total": total,
            "groups": {
                name: {"right": done.right(name), "total": count}
                for name, count in done.total.items()
            },
            "misses": [asdict(miss) for miss in done.misses],
        }
        for miss in done.misses:
            verb.out(
                f"WRONG  {miss.group}/{escape(miss.file)}: "
                f"expected {miss.expected}, found {escape(miss.found)}"
            )
        for name, count in done.total.items():
            verb.out(f"{name:<10} {done.right(name)} of {count}")
        verb.out(f"{'all':<10} {total - wrong} of {total}")
        if wrong:
            verb.answer(ExitCode.NO)
