"""From times to costs: what passes and proposals took, in passes of one row. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from power.evidence.statistics import decimal, median
from power.plan.model import Cost
from power.runner.messages import Timed

PLACES = 3


def medians(times: Iterable[Timed]) -> dict[int, Fraction]:
    """By size, the sum over all numbers of cells of the median time in ns."""
    found: dict[int, Fraction] = {}
    for timed in times:
        middle = median([Fraction(ns) for ns in timed.ns])
        found[timed.size] = found.get(timed.size, Fraction(0)) + middle
    return found


def rebuild(passes: Iterable[Timed]) -> Fraction:
    """What a pass takes longer behind one of another size, in ns: the sum over numbers of cells.

    At each, the median over sizes of the difference of medians, no less than 0.
    """
    longer: dict[int, list[Fraction]] = {}
    for timed in passes:
        if timed.first_ns:
            first, again = (median([Fraction(n) for n in ns]) for ns in (timed.first_ns, timed.ns))
            longer.setdefault(timed.cells, []).append(first - again)
    return sum((max(Fraction(0), median(found)) for found in longer.values()), Fraction(0))


def cost_of(passes: Sequence[Timed], drafts: Sequence[Timed]) -> Cost:
    """The costs that were measured; passes of one row are among them.

    A proposal is a line through the shortest and the longest one: what asking costs,
    and what a token costs. Neither is below 0, and no more is what a pass costs more
    behind one of another size: of all sizes the median.
    """
    spent = medians(passes)
    unit = spent[1]
    call = step = Fraction(0)
    drafted = {timed.size: timed.drafted for timed in drafts}
    proposed = {drafted[size]: ns for size, ns in medians(drafts).items() if drafted[size]}
    if proposed:
        short, long = min(proposed), max(proposed)
        if long > short:
            step = max(Fraction(0), (proposed[long] - proposed[short]) / (long - short))
        call = max(Fraction(0), proposed[short] - step * short)
    return Cost(
        draft_call=decimal(call / unit, PLACES),
        draft_step=decimal(step / unit, PLACES),
        rebuild=decimal(rebuild(passes) / unit, PLACES),
        rows={str(size): decimal(spent[size] / unit, PLACES) for size in sorted(spent)},
    )
