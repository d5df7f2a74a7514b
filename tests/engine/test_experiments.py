"""Experiments on real llama.cpp contexts: a KV cache, and a recurrent state that goes back."""

from __future__ import annotations

from typing import Any

import pytest

from power.runner.messages import Curve, PassShape, Rows
from power.runner.workbench import read_curve, read_rows

IDS = tuple(range(1, 60))


def ahead(_tokens: int) -> None:
    """Nobody waits for a sign of life."""


@pytest.mark.parametrize("target", ["target", "qwen35"])
def test_every_shape_reads_the_same_positions(lab: Any, target: str) -> None:
    """Passes of two to eight rows agree on these fixtures, whatever pads them; one row may not."""
    engine = lab.open("prompt-lookup", target=target, snapshots=7)
    shapes = (*(PassShape(n, n) for n in range(1, 9)), PassShape(8, 4, 200), PassShape(8, 1, 7))
    found = read_rows(engine, Rows(3, IDS, (5, 20), 11, shapes), ahead)
    assert [(walk.cells, walk.shape) for walk in found.walks] == [
        (cells, shape) for cells in (5, 20) for shape in range(10)
    ]
    for cells in (5, 20):
        walks = [walk.rows for walk in found.walks if walk.cells == cells]
        tokens = {tuple(row.token for row in rows) for rows in walks}
        assert len(tokens) == 1
        padded = walks[7:]
        assert padded == [padded[0]] * 3
    again = read_rows(engine, Rows(3, IDS, (5, 20), 11, shapes), ahead)
    assert again == found


@pytest.mark.parametrize(
    ("strategy", "target"), [("draft-model", "target"), ("prompt-lookup", "qwen35")]
)
def test_times_are_taken_and_the_engine_is_as_before(lab: Any, strategy: str, target: str) -> None:
    engine = lab.open(strategy, target=target, snapshots=7)
    expected = lab.run(engine, [1, 10, 20, 30, 40]).ids
    found = read_curve(engine, Curve(4, IDS, (8, 30), (1, 8), (1, 7), 3, 1, 16), ahead)
    assert [(t.cells, t.size) for t in found.passes] == [(8, 1), (8, 8), (30, 1), (30, 8)]
    assert all(len(t.ns) == 3 and min(t.ns) > 0 for t in found.passes)
    if strategy == "draft-model":
        assert [t.drafted for t in found.drafts] == [1, 7, 1, 7]
        assert [(t.cells, t.size, t.drafted) for t in found.intakes] == [(8, 16, 1), (30, 16, 1)]
        assert all(len(t.ns) == 3 and min(t.ns) > 0 for t in found.intakes)
    else:
        assert found.intakes == ()
    assert lab.run(engine, [1, 10, 20, 30, 40]).ids == expected
