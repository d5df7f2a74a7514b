"""Which row counts give equal bits: what is read of an engine, and what it says. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from power.diagnostics import fail
from power.plan.model import Plan
from power.receipt.certificate import Classes, ClassesAt, Padding, RowsPart, common_classes
from power.receipt.digests import document_sha256, token_ids_sha256
from power.runner.experiments import most_rows
from power.runner.messages import PassShape, RowBits, RowsRead

CROSSED = (32, 64, 256, 512, 1024)
"""Context lengths that passes are read across, as far as the plan's context holds them.

Kernels are chosen, and work is split, by the number of cells that a pass reads;
llama.cpp rounds it up to a multiple of 256.
"""

ROWS_DOMAIN = b"power-rows-v1\0"
_PAST_A_PASS = 3  # positions of a walk beyond the largest pass: no count divides all of them


@dataclass(frozen=True, slots=True)
class Reading:
    """One experiment: passes of every row count, and a fixed shape's with different padding.

    The first `counts` shapes have no padding, and 1, 2, ... rows.
    """

    cells: tuple[int, ...]
    span: int
    counts: int
    shapes: tuple[PassShape, ...]

    @property
    def tokens(self) -> int:
        """How many token ids it needs."""
        return self.cells[-1] + self.span


def reading(plan: Plan) -> Reading:
    """The experiment for `plan`; P840 when its context is too small for one."""
    most = most_rows(plan)
    span = most + _PAST_A_PASS
    last = plan.graph.context - span - most  # padding may reach beyond the span
    if last < 1:
        fail(
            "P840",
            "the plan's context is too small to compare passes in it",
            expected=f"at least {span + most + 1} tokens",
            found=f"graph.context = {plan.graph.context}",
            hint="raise `graph.context`, or lower `rows` and `spec_draft_max`",
        )
    cells = sorted({max(1, length - span // 2) for length in CROSSED} & set(range(1, last + 1)))
    bare = (PassShape(count, count) for count in range(1, most + 1))
    return Reading(tuple(cells) or (last,), span, most, (*bare, *_padded(plan)))


def _padded(plan: Plan) -> Iterable[PassShape]:
    rows = plan.graph.rows
    if rows is None:
        return ()
    tokens = (0, plan.target.header.vocabulary // 2)
    return (
        PassShape(rows, real, token)
        for real in sorted({1, rows // 2, rows - 1} & set(range(1, rows)))
        for token in tokens
    )


def cycled(texts: Iterable[Sequence[int]], length: int) -> tuple[int, ...]:
    """The token ids of `texts` one after another, from the start again until `length`."""
    ids = tuple(chain.from_iterable(texts))
    return (ids * (length // len(ids) + 1))[:length]


def judge(plan: Plan, asked: Reading, ids: Sequence[int], found: RowsRead) -> RowsPart:
    """What the rows that were read say."""
    walks = {(walk.cells, walk.shape): walk.rows for walk in found.walks}
    at = [ClassesAt(cells=c, classes=_classes(walks, c, asked.counts)) for c in asked.cells]
    full = (plan.graph.rows or 1) - 1  # the shape of the plan's passes, without padding
    padding = [
        Padding(
            real=shape.real,
            token=shape.padding,
            equal=all(_digests(walks[c, i]) == _digests(walks[c, full]) for c in asked.cells),
        )
        for i, shape in enumerate(asked.shapes)
        if i >= asked.counts
    ]
    return RowsPart(
        token_ids_sha256=token_ids_sha256(ids),
        span=asked.span,
        counts=list(range(1, asked.counts + 1)),
        classes=common_classes([each.classes for each in at]),
        by_cells=at,
        padding=padding,
        digest=document_sha256(ROWS_DOMAIN, [_digests(walk.rows) for walk in found.walks]),
    )


def _classes(
    walks: Mapping[tuple[int, int], tuple[RowBits, ...]], cells: int, counts: int
) -> Classes:
    groups: dict[tuple[str, ...], list[int]] = {}
    for shape in range(counts):
        groups.setdefault(tuple(_digests(walks[cells, shape])), []).append(shape + 1)
    return list(groups.values())


def _digests(rows: Sequence[RowBits]) -> list[str]:
    return [row.digest for row in rows]
