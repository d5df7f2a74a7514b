"""What an experiment may ask of a plan's engine, and which answers contradict it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from power.plan.model import Plan
from power.runner.messages import (
    Curve,
    CurveRead,
    PassShape,
    RowBits,
    Rows,
    RowsRead,
    Trial,
    Tried,
)

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MARGIN = re.compile(r"(\d{1,20}\.\d{6}|inf|nan)")


def most_rows(plan: Plan) -> int:
    """Most rows that a pass of the plan's engine has room for."""
    return max(plan.graph.rows or 1, (plan.speculation.spec_draft_max or 0) + 1)


def check_rows(
    plan: Plan, ids: Sequence[int], cells: Sequence[int], span: int, shapes: Sequence[PassShape]
) -> None:
    """Raise ValueError for what does not fit the plan's context and passes, or the ids."""
    for shape in shapes:
        if not 1 <= shape.real <= shape.rows <= most_rows(plan):
            raise ValueError(f"{shape} for an engine with room for {most_rows(plan)} rows")
        if not 0 <= shape.padding < plan.target.header.vocabulary:
            raise ValueError(f"token {shape.padding} is not in the vocabulary")
    reach = max((shape.rows for shape in shapes), default=0)
    _check_cells(plan, ids, cells, span, span + reach)


def check_curve(plan: Plan, curve: Curve) -> None:
    """Raise ValueError for what does not fit the plan's context and passes, or the ids."""
    counts, widths = curve.counts, curve.widths
    if not all(1 <= count <= most_rows(plan) for count in counts):
        raise ValueError(f"{counts} rows for an engine with room for {most_rows(plan)}")
    if not all(1 <= width <= (plan.speculation.spec_draft_max or 0) for width in widths):
        raise ValueError(f"proposals of {widths} tokens")
    reach = max((*counts, *widths, curve.intake + 1), default=0) + 1
    _check_cells(plan, curve.ids, curve.cells, reach, reach)


def _check_cells(
    plan: Plan, ids: Sequence[int], cells: Sequence[int], tokens: int, room: int
) -> None:
    """tokens, room: ids and cells that are needed behind each of `cells`."""
    most = max(cells, default=0)
    if min(cells, default=1) < 1 or most + room > plan.graph.context or most + tokens > len(ids):
        raise ValueError(f"{room} cells behind {cells} of {plan.graph.context}, {len(ids)} ids")


def trial_contradiction(trial: Trial, tried: Tried) -> str | None:
    """Why `tried` cannot be the end of `trial`; None when it can."""
    tokens, rounds = len(tried.done.ids), tried.done.counters.rounds
    if len(tried.margins) != (tokens if trial.margins else 0):
        return f"{len(tried.margins)} margins of {tokens} tokens"
    if len(tried.rounds) != (rounds if trial.rounds else 0):
        return f"{len(tried.rounds)} rounds of {rounds}"
    if tried.proposals and trial.advice.kind != "recording":
        return "proposals that nobody asked for"
    if not all(map(_MARGIN.fullmatch, tried.margins)):
        return "a margin that is no decimal"
    return None


def rows_contradiction(rows: Rows, found: RowsRead) -> str | None:
    """Why `found` cannot answer `rows`; None when it can."""
    asked = list(product(rows.cells, range(len(rows.shapes))))
    if found.number != rows.number or [(w.cells, w.shape) for w in found.walks] != asked:
        return "rows that nobody asked for"
    if any(len(walk.rows) != rows.span for walk in found.walks):
        return f"a walk of other than {rows.span} rows"
    if not all(_is_row(row) for walk in found.walks for row in walk.rows):
        return "a row without a digest or a margin"
    return None


def _is_row(row: RowBits) -> bool:
    return bool(_DIGEST.fullmatch(row.digest) and _MARGIN.fullmatch(row.margin) and row.token >= 0)


def curve_contradiction(curve: Curve, found: CurveRead) -> str | None:
    """Why `found` cannot answer `curve`; None when it can."""
    for timed, sizes, firsts in (
        (found.passes, curve.counts, curve.repeats),
        (found.drafts, curve.widths, 0),
        (found.intakes, [curve.intake] if found.intakes else [], 0),
    ):
        if [(t.cells, t.size) for t in timed] != list(product(curve.cells, sizes)):
            return "times that nobody asked for"
        if any(
            _is_odd(t.ns, curve.repeats)
            or _is_odd(t.plain_ns, curve.repeats)
            or not all(t.plain_ns)
            or _is_odd(t.first_ns, firsts)
            or _is_odd(t.back_ns, firsts)
            for t in timed
        ):
            return f"a time that is none, or not {curve.repeats} of them"
    return None if found.number == curve.number else "the times of another experiment"


def _is_odd(ns: Sequence[int], repeats: int) -> bool:
    return len(ns) != repeats or min(ns, default=0) < 0
