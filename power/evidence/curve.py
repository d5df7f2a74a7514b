"""From times to costs: what passes and proposals took, in passes of one row. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from power.evidence.statistics import decimal, median
from power.plan.model import Cost
from power.runner.messages import Timed

PLACES = 3
_ZERO = Fraction(0)


def medians(times: Iterable[Timed]) -> dict[int, Fraction]:
    """By size, the sum over all numbers of cells of the median time in ns."""
    found: dict[int, Fraction] = {}
    for timed in times:
        found[timed.size] = found.get(timed.size, _ZERO) + _middle(timed.ns)
    return found


def turns(passes: Iterable[Timed]) -> tuple[Fraction, Fraction]:
    """What a pass takes longer behind one of another size, in ns: (always, for each row less).

    Sums over all numbers of cells. At each, the first is the median over sizes of what a
    pass took longer behind one of one row than behind its own size; the second that of
    what a pass of one row took longer still behind one of that size, by row. None is
    below 0: what was only noise is nothing.
    """
    always = by_row = _ZERO
    for group in _by_cells(passes):
        plain = next(_middle(timed.ns) for timed in group if timed.size == 1)
        wide = [timed for timed in group if timed.size > 1 and timed.first_ns]
        turn = _longer(_middle(timed.first_ns) - _middle(timed.ns) for timed in wide)
        always += turn
        by_row += _longer(
            (_middle(timed.back_ns) - plain - turn) / (timed.size - 1)
            for timed in wide
            if timed.back_ns
        )
    return always, by_row


def _by_cells(passes: Iterable[Timed]) -> Iterable[list[Timed]]:
    found: dict[int, list[Timed]] = {}
    for timed in passes:
        found.setdefault(timed.cells, []).append(timed)
    return found.values()


def _middle(ns: Sequence[int]) -> Fraction:
    return median([Fraction(n) for n in ns])


def _longer(differences: Iterable[Fraction]) -> Fraction:
    found = list(differences)
    return max(_ZERO, median(found)) if found else _ZERO


def cost_of(
    passes: Sequence[Timed], drafts: Sequence[Timed], intakes: Sequence[Timed] = ()
) -> Cost:
    """The costs that were measured; passes of one row are among them.

    A proposal is a line through the shortest and the longest one: what asking costs,
    and what a token costs; neither is below 0. What a proposal with a backlog takes
    longer than that line says is what taking the backlog in costs.
    """
    spent = medians(passes)
    unit = spent[1]
    call = step = _ZERO
    drafted = {timed.size: timed.drafted for timed in drafts}
    proposed = {drafted[size]: ns for size, ns in medians(drafts).items() if drafted[size]}
    if proposed:
        short, long = min(proposed), max(proposed)
        if long > short:
            step = max(_ZERO, (proposed[long] - proposed[short]) / (long - short))
        call = max(_ZERO, proposed[short] - step * short)
    prefill = None
    if intakes:
        (size,) = {timed.size for timed in intakes}
        longer = medians(intakes)[size] - call - step
        prefill = decimal(max(_ZERO, longer / size) / unit, PLACES)
    always, by_row = turns(passes)
    return Cost(
        draft_call=decimal(call / unit, PLACES),
        draft_step=decimal(step / unit, PLACES),
        draft_prefill=prefill,
        rebuild=decimal(always / unit, PLACES),
        refill=decimal(by_row / unit, PLACES),
        rows={str(size): decimal(spent[size] / unit, PLACES) for size in sorted(spent)},
    )
