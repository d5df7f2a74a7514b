"""What draft heads propose by, and that what is no number proposes nothing in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from power.backends.errors import EngineError
from power.backends.llamacpp.block_draft import Block
from power.backends.llamacpp.choice import most_probable
from power.backends.llamacpp.dflash2 import walk
from power.backends.llamacpp.dspark import read_chain

NAN, INF = float("nan"), float("inf")


def rows(*values: tuple[float, ...]) -> Any:
    return np.array(values, dtype=np.float32)


class Context:
    """Answers with what a graph would have computed."""

    def __init__(self, nextn: Any) -> None:
        self._nextn = nextn

    def nextn(self, _rows: int) -> Any:
        return self._nextn


def block(nextn: Any, logits: Any = None) -> Block:
    return Block(Context(nextn), logits, 0, len(nextn))  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [NAN, INF])
def test_logits_that_are_no_numbers_end_the_run(bad: float) -> None:
    assert most_probable(rows((0.0, 2.0, 1.0))[0], 0.0) == 1
    assert most_probable(rows((0.0, 2.0, 1.0))[0], 0.99) is None
    for broken in ((0.0, bad, 1.0), (-INF, -INF, -INF)):
        with pytest.raises(EngineError, match="no number"):
            most_probable(rows(broken)[0], 0.0)


def test_a_lattice_of_no_numbers_ends_the_run_and_one_without_successors_the_proposal() -> None:
    read = walk(2, 0.0)
    assert read(block(rows((7, 9, 0.1, 0.9, 0.0, 0.0)))) == [9]
    assert read(block(rows((7, 9, -INF, -INF, 0.0, 0.0)))) == []
    with pytest.raises(EngineError, match="no number"):
        read(block(rows((7, 9, NAN, 0.9, 0.0, 0.0))))


def test_a_confidence_that_is_no_number_ends_the_run() -> None:
    logits = rows((0.0, 2.0), (3.0, 1.0))
    read = read_chain(None, 0.5, confident=True)
    assert read(block(rows((0.9,), (0.6,)), logits)) == [1, 0]
    assert read(block(rows((0.9,), (0.4,)), logits)) == [1]
    with pytest.raises(EngineError, match="no number"):
        read(block(rows((0.9,), (NAN,)), logits))
