"""The scripted target is strict: it refuses what a real engine would get wrong."""

from __future__ import annotations

from typing import Any

import pytest

from power.backends.scripted.model import ScriptedModel
from power.backends.scripted.target import ScriptedTarget

MODEL = ScriptedModel(16, seed=1)


def made(prompt: list[int] | None = None, **changes: Any) -> ScriptedTarget:
    target = ScriptedTarget(MODEL, **{"context": 32, **changes})
    target.prefill([1, 2, 3] if prompt is None else prompt)
    return target


def test_rows_are_the_rows_of_the_prefixes() -> None:
    target = made()
    target.evaluate([4, 5, 6])
    for row in range(3):
        prefix = [1, 2, 3, 4, 5, 6][: 4 + row]
        assert target.row(row) == MODEL.logits(MODEL.read(prefix))


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_commit_replay_and_prefill_of_the_same_tokens_are_one_state(keep: int) -> None:
    trimmed, replayed = made(), made()
    mark = replayed.checkpoint()
    for target in (trimmed, replayed):
        target.evaluate([4, 5, 6])
    assert trimmed.commit(keep)
    replayed.replay(mark, [4, 5, 6][:keep])
    fresh = made([1, 2, 3, 4, 5, 6][: 3 + keep])
    assert trimmed.state == replayed.state == fresh.state
    assert trimmed.position == replayed.position == 3 + keep


def test_a_window_trims_up_to_itself_and_not_beyond() -> None:
    target = made(window=2)
    target.evaluate([4, 5, 6, 7])
    assert not target.commit(1)
    assert target.position == 3
    assert target.commit(2)


def test_padding_counts_against_a_window() -> None:
    target = made(window=2, rows=4)
    target.evaluate([4])
    assert not target.commit(1)
    pure = made(rows=4)
    pure.evaluate([4])
    assert pure.commit(1)


def test_a_checkpoint_can_be_restored_after_a_commit_and_twice() -> None:
    target = made()
    mark = target.checkpoint()
    before = target.state
    for _ in range(2):
        target.evaluate([4, 5])
        target.commit(2)
        target.restore(mark)
        assert target.state == before


def test_a_lying_trim_keeps_its_position_but_not_its_state() -> None:
    target = made(trim="lie")
    target.evaluate([4, 5])
    assert target.commit(1)
    assert target.position == 4
    assert target.state != made([1, 2, 3, 4]).state


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, []),
        ({"context": 5}, [4, 5, 6]),
        ({"rows": 2}, [4, 5, 6]),
        ({"batch": 2}, [4, 5, 6]),
        ({"batch": 3, "rows": 4}, [4]),
        ({}, [16]),
        ({}, [-1]),
    ],
)
def test_a_pass_that_does_not_fit_is_an_error(changes: dict[str, Any], tokens: list[int]) -> None:
    with pytest.raises(RuntimeError):
        made(**changes).evaluate(tokens)


def test_calls_out_of_order_are_errors() -> None:
    target = made()
    with pytest.raises(RuntimeError, match="not clean"):
        target.prefill([1])
    with pytest.raises(RuntimeError, match="cannot keep"):
        target.commit(1)
    with pytest.raises(RuntimeError, match="no pass"):
        target.row(0)
    target.evaluate([4, 5])
    with pytest.raises(RuntimeError, match="cannot keep"):
        target.commit(3)
    with pytest.raises(RuntimeError, match="neither"):
        target.evaluate([4])
    with pytest.raises(RuntimeError, match="ahead"):
        target.restore(9)
    with pytest.raises(RuntimeError, match="context"):
        target.replay(3, [1] * 40)


@pytest.mark.parametrize(("window", "batch"), [(None, 1), (3, 4)])
def test_a_batch_without_a_staging_row_is_refused(window: int | None, batch: int) -> None:
    with pytest.raises(ValueError, match="no room"):
        ScriptedTarget(MODEL, context=32, window=window, batch=batch)
