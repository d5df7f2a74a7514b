"""From times to costs: what passes and proposals took, in passes of one row. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from power.evidence.statistics import decimal, median
from power.plan.model import Cost
from power.runner.messages import Timed

PLACES = 3
_ZERO = Fraction(0)


def ratios(times: Iterable[Timed]) -> dict[int, Fraction]:
    """By size, what it takes in passes of one row: the mean over cells of the medians."""
    found: dict[int, list[Fraction]] = {}
    for timed in times:
        found.setdefault(timed.size, []).append(_middle(timed, timed.ns))
    return {size: _mean(spent) for size, spent in found.items()}


def turns(passes: Iterable[Timed]) -> tuple[Fraction, Fraction]:
    """What a pass takes longer behind one of another size: (always, for each row less).

    Means over all numbers of cells. At each, the first is the median over sizes of what a
    pass took longer behind one of one row than behind its own size; the second that of
    what a pass of one row took longer still behind one of that size, by row. None is
    below 0: what was only noise is nothing.
    """
    found: list[tuple[Fraction, Fraction]] = []
    for group in _by_cells(passes):
        wide = [timed for timed in group if timed.size > 1 and timed.first_ns]
        turn = _longer(_middle(one, one.first_ns) - _middle(one, one.ns) for one in wide)
        by_row = _longer(
            (_middle(one, one.back_ns) - 1 - turn) / (one.size - 1) for one in wide if one.back_ns
        )
        found.append((turn, by_row))
    always, by_row_each = zip(*found, strict=True)
    return _mean(always), _mean(by_row_each)


def _by_cells(passes: Iterable[Timed]) -> Iterable[list[Timed]]:
    found: dict[int, list[Timed]] = {}
    for timed in passes:
        found.setdefault(timed.cells, []).append(timed)
    return found.values()


def _middle(timed: Timed, ns: Sequence[int]) -> Fraction:
    """The median of `ns` over the pass of one row that was timed just before each."""
    pairs = zip(ns, timed.plain_ns, strict=True)
    return median([Fraction(spent, plain) for spent, plain in pairs])


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, _ZERO) / len(values)


def _longer(differences: Iterable[Fraction]) -> Fraction:
    found = list(differences)
    return max(_ZERO, median(found)) if found else _ZERO


def cost_of(
    passes: Sequence[Timed], drafts: Sequence[Timed], intakes: Sequence[Timed] = ()
) -> Cost:
    """The costs that were measured, against a pass of one row just before each.

    So a host that grows slower under way slows both, and moves no cost.
    A proposal is a line through the shortest and the longest one: what asking costs,
    and what a token costs; neither is below 0. What a proposal with a backlog takes
    longer than that line says is what taking the backlog in costs.
    """
    spent = ratios(passes)
    call = step = _ZERO
    drafted = {timed.size: timed.drafted for timed in drafts}
    proposed = {drafted[size]: cost for size, cost in ratios(drafts).items() if drafted[size]}
    if proposed:
        short, long = min(proposed), max(proposed)
        if long > short:
            step = max(_ZERO, (proposed[long] - proposed[short]) / (long - short))
        call = max(_ZERO, proposed[short] - step * short)
    prefill = None
    if intakes:
        (size,) = {timed.size for timed in intakes}
        longer = ratios(intakes)[size] - call - step
        prefill = decimal(max(_ZERO, longer / size), PLACES)
    always, by_row = turns(passes)
    return Cost(
        draft_call=decimal(call, PLACES),
        draft_step=decimal(step, PLACES),
        draft_prefill=prefill,
        rebuild=decimal(always, PLACES),
        refill=decimal(by_row, PLACES),
        rows={"1": "1"}
        | {str(size): decimal(spent[size], PLACES) for size in sorted(spent) if size > 1},
    )
