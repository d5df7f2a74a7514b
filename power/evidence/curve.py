"""From times to costs: what passes and proposals took, in passes of one row. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations

from power.evidence.statistics import decimal, median
from power.plan.model import Cost
from power.runner.messages import Timed

PLACES = 3
_ZERO = Fraction(0)


def ratios(times: Iterable[Timed]) -> dict[int, Fraction]:
    """By size, what it takes in passes of one row: the mean over cells of upper quartiles.

    Not of medians: what pays in every other run only does not pay.
    """
    found: dict[int, list[Fraction]] = {}
    for timed in times:
        ordered = sorted(_over_plain(timed, timed.ns))
        found.setdefault(timed.size, []).append(ordered[3 * (len(ordered) - 1) // 4])
    return {size: _mean(spent) for size, spent in found.items()}


def turns(passes: Iterable[Timed]) -> tuple[Fraction, Fraction]:
    """What a pass takes longer behind one of another size: (always, for each row less).

    Means over all numbers of cells. At each, a line is laid through what it takes longer
    to go from one row to a size and back: its height is two turns, its slope what a row
    costs. Both are medians (Theil and Sen), and neither is below 0: what was only noise
    is nothing.
    """
    found: list[tuple[Fraction, Fraction]] = []
    for group in _by_cells(passes):
        trips = [(one.size - 1, _trip(one)) for one in group if one.size > 1 and one.back_ns]
        by_row = _longer(
            (longer - shorter) / (far - near)
            for (near, shorter), (far, longer) in combinations(trips, 2)
        )
        both = _longer(spent - by_row * rows for rows, spent in trips)
        found.append((both / 2, by_row))
    always, by_row_each = zip(*found, strict=True)
    return _mean(always), _mean(by_row_each)


def _trip(timed: Timed) -> Fraction:
    """What it takes longer to go from one row to this size and back than to stay there."""
    there = _middle(timed, timed.first_ns) - _middle(timed, timed.ns)
    return there + _middle(timed, timed.back_ns) - 1


def _by_cells(passes: Iterable[Timed]) -> Iterable[list[Timed]]:
    found: dict[int, list[Timed]] = {}
    for timed in passes:
        found.setdefault(timed.cells, []).append(timed)
    return found.values()


def _middle(timed: Timed, ns: Sequence[int]) -> Fraction:
    return median(_over_plain(timed, ns))


def _over_plain(timed: Timed, ns: Sequence[int]) -> list[Fraction]:
    """Each of `ns` over the pass of one row that was timed just before it."""
    return [Fraction(spent, plain) for spent, plain in zip(ns, timed.plain_ns, strict=True)]


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
