"""Bit for bit: what the target's memory holds after trims, replays and restores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from power.backends.interface import SamplingConfig
from power.backends.llamacpp.context import Context
from power.backends.llamacpp.target import LlamaTarget

PROMPT = [1, 10, 20, 30, 40, 50]
WRONG = [9, 8, 7, 6, 5, 4, 3]
Bits = npt.NDArray[np.float32]


def fresh(engine: Any) -> LlamaTarget:
    """A target with the prompt but its last token in memory."""
    target = engine.session(SamplingConfig(), control=True).target
    assert isinstance(target, LlamaTarget)
    target.prefill(PROMPT[:-1])
    return target


def after(target: LlamaTarget, tokens: list[int]) -> Bits:
    """The bits of the row behind `tokens`, evaluated one pass each and committed."""
    row = np.empty(0, np.float32)
    for token in tokens:
        target.evaluate([token])
        row = target.row(0).copy()
        assert target.commit(1)
    return row


@pytest.mark.parametrize("rows", [None, 8])
@pytest.mark.parametrize("rejected", range(8))
def test_a_trimmed_suffix_leaves_no_trace(lab: Any, rows: int | None, rejected: int) -> None:
    """At one shape, the next row equals that of a memory which never saw the rejected tokens."""
    engine = lab.open(rows=rows)
    accepted = [100 + i for i in range(8 - rejected - 1)]
    target = fresh(engine)
    target.evaluate([PROMPT[-1], *accepted, *WRONG[:rejected]])
    assert target.commit(1 + len(accepted))
    assert target.position == len(PROMPT) + len(accepted)
    actual = after(target, [77, 78])

    target = fresh(engine)
    target.evaluate([PROMPT[-1], *accepted, *[200] * rejected])  # other tokens, same shape
    assert target.commit(1 + len(accepted))
    expected = after(target, [77, 78])
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("rejected", range(1, 8))
def test_replay_equals_a_fresh_context(lab: Any, rejected: int) -> None:
    engine = lab.open(rows=8)
    kept = [PROMPT[-1], *[100 + i for i in range(7 - rejected)]]
    target = fresh(engine)
    checkpoint = target.checkpoint()
    target.evaluate([*kept, *WRONG[:rejected]])
    target.replay(checkpoint, kept)
    assert target.position == len(PROMPT) - 1 + len(kept)
    actual = after(target, [77, 78])

    target = fresh(engine)
    target.evaluate(kept)
    assert target.commit(len(kept))
    assert np.array_equal(actual, after(target, [77, 78]))


def test_restore_forgets_a_pass_and_a_commit(lab: Any) -> None:
    engine = lab.open(rows=8)
    target = fresh(engine)
    checkpoint = target.checkpoint()
    for _ in range(3):  # a checkpoint may be returned to again and again
        target.evaluate([PROMPT[-1], *WRONG])
        target.restore(checkpoint)
        target.evaluate([PROMPT[-1], *WRONG])
        assert target.commit(5)
        target.restore(checkpoint)
        assert target.position == len(PROMPT) - 1
    assert np.array_equal(after(target, [50, 77]), after(fresh(engine), [50, 77]))


@pytest.mark.complaint(n=1)
def test_padding_content_makes_no_difference(lab: Any) -> None:
    """The rows of a proposal have the same bits whatever stands behind them."""
    engine = lab.open(rows=8)
    target = fresh(engine)
    checkpoint = target.checkpoint()
    target.evaluate([PROMPT[-1], 100])
    padded = [target.row(i).copy() for i in range(2)]
    target.restore(checkpoint)
    target.evaluate([PROMPT[-1], 100, *WRONG[:6]])
    assert all(np.array_equal(padded[i], target.row(i)) for i in range(2))


def test_a_row_in_a_micro_batch_has_the_bits_of_a_smaller_pass(lab: Any) -> None:
    """A pass that is cut up into pieces gives the rows of these pieces, and drops any of them."""
    cut, whole = fresh(lab.open(micro_batch=4)), fresh(lab.open())
    cut.evaluate([PROMPT[-1], *WRONG])  # 8 rows, as 4 and 4
    pieces = [cut.row(i).copy() for i in range(8)]
    for start in (0, 4):
        whole.evaluate([PROMPT[-1], *WRONG][start : start + 4])
        assert all(np.array_equal(pieces[start + i], whole.row(i)) for i in range(4))
        assert whole.commit(4)
    assert cut.commit(2)
    assert cut.position == len(PROMPT) + 1


def test_a_session_begins_with_a_clean_memory(lab: Any) -> None:
    engine = lab.open(rows=8)
    first = after(fresh(engine), [50, 77, 78])
    assert np.array_equal(first, after(fresh(engine), [50, 77, 78]))
    other = lab.open(rows=8)
    assert np.array_equal(first, after(fresh(other), [50, 77, 78]))


def test_prefill_in_chunks_counts_every_token(lab: Any) -> None:
    engine = lab.open(prefill_batch=8)
    target = engine.session(SamplingConfig(), control=True).target
    target.prefill(list(range(3, 36)))
    assert target.position == 33


def test_rows_behind_the_pass_can_not_be_read(lab: Any) -> None:
    target = fresh(lab.open(rows=8))
    with pytest.raises(IndexError):
        target.row(0)
    target.evaluate([50, 51])
    target.row(1)
    with pytest.raises(IndexError):
        target.row(2)  # padding
    assert target.commit(2)
    with pytest.raises(IndexError):
        target.row(0)


@pytest.mark.parametrize("keep", [0, 3])
def test_a_commit_outside_the_pass_is_refused(lab: Any, keep: int) -> None:
    target = fresh(lab.open())
    target.evaluate([50, 51])
    with pytest.raises(ValueError, match="keep"):
        target.commit(keep)


def test_a_pass_wider_than_the_shape_is_refused(lab: Any) -> None:
    target = fresh(lab.open(rows=8))
    with pytest.raises(ValueError, match="fixed"):
        target.evaluate(list(range(3, 12)))


def test_a_foreign_checkpoint_is_refused(lab: Any) -> None:
    target = fresh(lab.open())
    with pytest.raises(ValueError, match="checkpoint"):
        target.restore(None)


def test_every_pass_of_a_fixed_shape_has_its_rows(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefill apart, whatever is proposed, replayed or left of the context."""
    engine = lab.open("draft-model", rows=8, context=60)
    passes: list[tuple[int, int]] = []
    decode = Context.decode

    def spy(self: Context, tokens: list[int], position: int, outputs: int) -> Bits:
        passes.append((len(tokens), outputs))
        return decode(self, tokens, position, outputs)

    monkeypatch.setattr(Context, "decode", spy)
    for control in (True, False):
        outcome = lab.run(engine, PROMPT, context=60, control=control)
        assert outcome.counters.rounds > 5
        of_target = [rows for rows, outputs in passes if outputs > 1]
        assert of_target == [8] * outcome.counters.rounds
        assert all(outputs in {0, 1, rows} for rows, outputs in passes)
        passes.clear()
