"""Positions of several coordinates: right ones are taken, and any wrong one shows.

A model with rotary sections turns a row by three coordinates of its position,
which of a text are all the same, and by a fourth, which is 0. Rows of tokens
get them from the library; those of features bring them along. The library
takes whatever they are, so a fixture that did not depend on them would hold
nothing: each mutant here has to be seen by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from power.backends.errors import EngineError
from power.backends.llamacpp.batch import Batch
from tests.engine.heads import PROMPTS

Coordinates = npt.NDArray[np.int32]  # [axes, rows]
Change = Callable[[Coordinates], Coordinates]


def shifted(axis: int, by: int) -> Change:
    """One coordinate is `by` off."""

    def change(at: Coordinates) -> Coordinates:
        at[axis] += by
        return at

    return change


def zeroed(*axes: int) -> Change:
    """Coordinates that nobody filled in."""

    def change(at: Coordinates) -> Coordinates:
        at[list(axes)] = 0
        return at

    return change


ACCEPTED_BY_THE_LIBRARY: dict[str, Change] = {
    **{f"{axis} is {by:+}": shifted(axis, by) for axis in (1, 2, 3) for by in (1, -1)},
    "only the first is filled": zeroed(1, 2),
    "the second is not": zeroed(1),
    "the third is not": zeroed(2),
    "the fourth is as the others": lambda at: at[[0, 0, 0, 0]],
    "the third and the fourth are exchanged": lambda at: at[[0, 1, 3, 2]],
    "the second and the fourth are exchanged": lambda at: at[[0, 3, 2, 1]],
}
REFUSED: dict[str, Change] = {
    "the first is one on": shifted(0, 1),
    "the first is one back": shifted(0, -1),
    "the first and the fourth are exchanged": lambda at: at[[3, 1, 2, 0]],
    "row after row": lambda at: np.ascontiguousarray(at.T).reshape(at.shape),
    "all are the first row's": lambda at: np.full_like(at, at[0, 0]),
}


def break_rows_of_features(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """From now on rows of features bring other coordinates along."""
    embed = Batch._embed

    def broken(self: Batch, tokens: Any, embeddings: Any, count: int) -> None:
        embed(self, tokens, embeddings, count)
        if tokens is None and self._axes > 1:
            size = count * self._axes
            at = np.array(self._position[:size], np.int32).reshape(self._axes, count)
            self._position[:size] = change(at).reshape(-1).tolist()

    monkeypatch.setattr(Batch, "_embed", broken)


def accepted(lab: Any, engine: Any) -> list[int]:
    """Accepted tokens of a run of each prompt."""
    counts = []
    for prompt in (PROMPTS[0], PROMPTS[4]):  # of one batch and of two
        outcome = lab.run(engine, prompt, max_tokens=50)
        if outcome.error is not None:
            raise outcome.error
        counts.append(outcome.counters.accepted)
    return counts


@pytest.fixture
def sections(lab: Any) -> Any:
    """An engine whose draft turns by all coordinates."""
    return lab.open("dflash", target="walk", draft="dflash-sections")


def test_a_draft_with_sections_is_as_good_as_one_without(lab: Any, sections: Any) -> None:
    """Of the same text, with the same votes: only how it finds its rows is another way."""
    plain = accepted(lab, lab.open("dflash", target="walk", draft="dflash"))
    actual = accepted(lab, sections)
    assert all(abs(a - b) <= 1 for a, b in zip(actual, plain, strict=True))


@pytest.mark.parametrize("change", ACCEPTED_BY_THE_LIBRARY.values(), ids=ACCEPTED_BY_THE_LIBRARY)
def test_a_wrong_coordinate_shows(
    lab: Any, sections: Any, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    right = sum(accepted(lab, sections))
    break_rows_of_features(monkeypatch, change)
    assert sum(accepted(lab, sections)) < right / 10


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_a_wrong_position_is_refused(
    lab: Any, sections: Any, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    break_rows_of_features(monkeypatch, change)
    with pytest.raises(EngineError, match=r"failed with code -1|holds \d+ rows in place of"):
        accepted(lab, sections)


OF_TOKENS: dict[str, Callable[[int, int, int], int]] = {
    "one on": lambda first, row, _: first + row + 1,
    "every second": lambda first, row, _: 2 * (first + row),
    "with gaps": lambda first, row, _: first + 2 * row,
    "backwards": lambda first, row, rows: first + rows - 1 - row,
    "all the first row's": lambda first, _row, _: first,
}
"""The position of a row: of the first one, of a row, and how many rows there are."""


@pytest.mark.parametrize("of_block", [True, False], ids=["block", "target"])
@pytest.mark.parametrize("position", OF_TOKENS.values(), ids=OF_TOKENS)
def test_a_wrong_position_of_a_token_is_noticed(
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
    position: Callable[[int, int, int], int],
    of_block: bool,
) -> None:
    """Positions with gaps are legal to a library that knows images, so Power counts them."""
    engine = lab.open("mtp", target="qwen35", snapshots=7, rows=8)
    assert sum(accepted(lab, engine)) > 0
    fill = Batch.fill

    def broken(self: Batch, tokens: Any, first: int, outputs: int, embeddings: Any = None) -> Any:
        raw = fill(self, tokens, first, outputs, embeddings)
        if (embeddings is not None) is of_block:
            rows = raw.n_tokens
            self._position[:rows] = [position(first, row, rows) for row in range(rows)]
        return raw

    monkeypatch.setattr(Batch, "fill", broken)
    with pytest.raises(EngineError):
        accepted(lab, engine)
