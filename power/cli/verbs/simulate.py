"""`power simulate`: what every setting would have done on a recorded trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from power.cli.console import Verb
from power.cli.options import FILE, format_option

if TYPE_CHECKING:
    from power.evidence.planner import Judged

_SHOWN = 12


@click.command("simulate")
@click.argument("trace", type=FILE, metavar="TRACE")
@click.option(
    "--fixed", is_flag=True, help="Pad every pass to one row count, instead of the natural shape."
)
@format_option("human", "json")
def command(trace: Path, fixed: bool, fmt: str) -> None:
    """Compute from the recorded TRACE what every setting would have cost.

    Rounds, acceptance and replays are those that a run would have, for every
    strategy, K, S and controller; speed is by the costs that were measured.
    """
    with Verb("simulate", fmt) as verb:
        from power.evidence.outputs import SimulateOutput
        from power.evidence.planner import choose, ranked, survey
        from power.evidence.trace import read_trace

        found = ranked(survey(read_trace(trace), fixed=fixed))
        chosen = choose(found)
        answer = SimulateOutput(
            settings=[one.prediction() for one in found],
            chosen=None if chosen is None else chosen.prediction(),
        )
        verb.data |= answer.document()
        verb.out("  speed  worst  tok/round  strategy        controller   K   S  shape")
        for one in found[:_SHOWN]:
            verb.out(_line(one))
        if len(found) > _SHOWN:
            verb.say(f"{len(found) - _SHOWN} more; `--format json` has them all")
        verb.say("off: nothing pays" if chosen is None else f"best: {_line(chosen).strip()}")


def _line(one: Judged) -> str:
    said = one.prediction()
    shape = said.shape if said.rows is None else f"fixed {said.rows}"
    return (
        f"{said.speed_up:>7}{said.worst:>7}{said.tokens_per_round:>11}  "
        f"{said.strategy:<15} {said.controller:<10}{said.draft_max:>4}{said.snapshots:>4}  {shape}"
    )
