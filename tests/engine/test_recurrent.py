"""A recurrent state has no suffix to cut off: snapshots, saved states and exact ways back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from power.backends.errors import EngineError
from power.backends.interface import SamplingConfig
from power.backends.llamacpp.context import Context, ContextConfig
from power.backends.llamacpp.model import Model
from power.backends.llamacpp.target import LlamaTarget, Piece
from power.diagnostics import PowerError
from power.speculation.outcome import Finish, Outcome

PROMPT = [1, 10, 20, 30, 40, 50]
KEPT = [100, 101, 102, 103, 104, 105, 106]
WRONG = [9, 8, 7, 6, 5, 4, 3]
NEXT = [77, 78, 79]
SHAPES = pytest.mark.parametrize("rows", [None, 8], ids=["natural", "fixed"])
Bits = npt.NDArray[np.float32]


@pytest.fixture
def hybrid(lab: Any) -> Callable[..., Any]:
    """An engine on the hybrid target; S is 7 unless `config` says otherwise."""

    def open_(strategy: str = "prompt-lookup", **config: Any) -> Any:
        return lab.open(strategy, **({"target": "qwen35", "snapshots": 7} | config))

    return open_


def fresh(engine: Any) -> LlamaTarget:
    """A target with the prompt but its last token in memory."""
    target = engine.session(SamplingConfig(), control=True).target
    assert isinstance(target, LlamaTarget)
    target.prefill(PROMPT[:-1])
    return target


def after(target: LlamaTarget, tokens: list[int]) -> Bits:
    """The bits of all rows behind `tokens`, evaluated one pass each and committed."""
    rows = []
    for token in tokens:
        target.evaluate([token])
        rows.append(target.row(0).copy())
        assert target.commit(1)
    return np.stack(rows)


def one_by_one(engine: Any, kept: list[int]) -> Bits:
    """What follows `kept` in a fresh memory that evaluated it token by token."""
    target = fresh(engine)
    after(target, kept)
    return after(target, NEXT)


def in_one_pass(engine: Any, kept: list[int], width: int) -> Bits:
    """What follows `kept` where it began a pass of `width` rows and nothing else was ever seen."""
    target = fresh(engine)
    target.evaluate([*kept, *kept[-1:] * (width - len(kept))])
    assert target.commit(len(kept))
    return after(target, NEXT)


def committed_again(engine: Any, pieces: list[Piece]) -> LlamaTarget:
    """A fresh memory that evaluated just these committed passes, each with the rows it had.

    What the rows behind the committed ones held is not repeated: it left no trace.
    """
    target = engine.session(SamplingConfig(), control=True).target
    assert isinstance(target, LlamaTarget)
    for tokens, rows, outputs in pieces:
        if outputs:
            target.evaluate([*tokens, *tokens[-1:] * (rows - len(tokens))])
            assert target.commit(len(tokens))
        else:
            target.prefill(tokens)
    return target


def test_the_fixture_is_recurrent(hybrid: Any) -> None:
    """And its snapshots are those that were asked for."""
    engine = hybrid(snapshots=5, draft_max=5)
    assert engine._model.recurrent
    assert engine._context.snapshots == 5


@pytest.mark.complaint(n=6)
@SHAPES
@pytest.mark.parametrize("rejected", range(8))
def test_a_rejected_suffix_leaves_no_trace(hybrid: Any, rows: int | None, rejected: int) -> None:
    engine = hybrid(rows=rows)
    kept = [PROMPT[-1], *KEPT[: 7 - rejected]]
    target = fresh(engine)
    target.evaluate([*kept, *WRONG[:rejected]])
    assert target.commit(len(kept))
    assert target.position == len(PROMPT) - 1 + len(kept)
    actual = after(target, NEXT)
    assert np.array_equal(actual, in_one_pass(engine, kept, 8))
    expected = one_by_one(engine, kept)
    if rows is None:  # passes of other row counts: the same up to rounding
        assert np.allclose(actual, expected, atol=0.05)
    else:
        assert np.array_equal(actual, expected)


@SHAPES
def test_many_rounds_leave_no_trace(hybrid: Any, rows: int | None) -> None:
    """Trim after trim, of every length: the state is that of the kept tokens alone."""
    engine = hybrid(rows=rows)
    target, kept = fresh(engine), [PROMPT[-1]]
    target.evaluate(kept)
    assert target.commit(1)
    for rejected in (7, 0, 3, 6, 1, 5, 2, 4, 7, 7):
        accepted = [110 + rejected + i for i in range(8 - rejected)]
        target.evaluate([*accepted, *WRONG[:rejected]])
        assert target.commit(len(accepted))
        kept += accepted
    pieces = list(target._history)
    actual = after(target, NEXT)
    assert np.array_equal(actual, after(committed_again(engine, pieces), NEXT))
    expected = one_by_one(engine, kept)
    if rows is None:  # passes of other row counts: the same up to rounding
        assert np.allclose(actual, expected, atol=0.05)
    else:
        assert np.array_equal(actual, expected)


@pytest.mark.parametrize("rejected", range(4, 8))
def test_more_than_the_snapshots_is_replayed(
    hybrid: Any, monkeypatch: pytest.MonkeyPatch, rejected: int
) -> None:
    """Exactly, and from the saved state: one decode, whatever the length of the prompt."""
    engine = hybrid(snapshots=3)
    kept = [PROMPT[-1], *KEPT[: 7 - rejected]]
    target = fresh(engine)
    checkpoint = target.checkpoint()
    target.evaluate([*kept, *WRONG[:rejected]])
    assert not target.commit(len(kept))
    assert target.position == len(PROMPT) - 1
    decodes = count_decodes(monkeypatch)
    target.replay(checkpoint, kept)
    assert decodes == [(len(kept), len(PROMPT) - 1)]
    assert np.array_equal(after(target, NEXT), in_one_pass(engine, kept, len(kept)))


@pytest.mark.complaint(n=7)
def test_a_state_is_saved_only_where_a_replay_may_need_it(
    hybrid: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []
    save = Context.save

    def spy(self: Context) -> Any:
        saved.append(self.filled())
        return save(self)

    monkeypatch.setattr(Context, "save", spy)
    target = fresh(hybrid(snapshots=3))
    for width, expected in ((1, []), (4, []), (5, [7])):
        target.checkpoint()
        target.evaluate([PROMPT[-1], *KEPT[: width - 1]])
        assert target.commit(1) is (width <= 4)
        assert saved == expected


@pytest.mark.parametrize(("snapshots", "rows"), [(3, None), (7, None), (7, 8)])
def test_restore_forgets_a_pass_and_a_commit(hybrid: Any, snapshots: int, rows: int | None) -> None:
    """A whole pass is more than a snapshot can undo; the way back is exact all the same."""
    engine = hybrid(snapshots=snapshots, rows=rows)
    target = fresh(engine)
    target.evaluate([PROMPT[-1], 60, 61, *WRONG[:3]])
    assert target.commit(3)
    before = target.position
    checkpoint = target.checkpoint()
    for width in (1, 3, 8):
        for keep in (0, 1, width):
            target.evaluate([62, *KEPT[: width - 1]])
            if keep:
                target.commit(keep)
            target.restore(checkpoint)
            assert target.position == before
    actual = after(target, [62, *NEXT])
    target = fresh(engine)
    target.evaluate([PROMPT[-1], 60, 61, *[200] * 3])
    assert target.commit(3)
    assert np.array_equal(actual, after(target, [62, *NEXT]))


@pytest.mark.parametrize("snapshots", [3, 7])
def test_a_failed_evaluation_is_undone(
    hybrid: Any, monkeypatch: pytest.MonkeyPatch, snapshots: int
) -> None:
    """Even one that left no row behind and a changed state, which positions do not show."""
    engine = hybrid(snapshots=snapshots)
    target = fresh(engine)
    checkpoint = target.checkpoint()
    decode = Context.decode

    def fail(self: Context, tokens: Any, position: int, *rest: Any, **more: Any) -> Any:
        decode(self, tokens, position, *rest, **more)
        assert self._forget(position)  # the library's yes that leaves a wrong state
        raise EngineError("decode", "the device is lost")

    with monkeypatch.context() as broken:
        broken.setattr(Context, "decode", fail)
        with pytest.raises(EngineError):
            target.evaluate([PROMPT[-1], *WRONG[: snapshots - 1]])
    target.restore(checkpoint)
    actual = after(target, [PROMPT[-1], *NEXT])
    assert np.array_equal(actual, after(fresh(engine), [PROMPT[-1], *NEXT]))


@pytest.mark.parametrize(("k", "s", "rows"), [(7, 7, 8), (7, 7, None), (7, 3, None), (1, 1, 2)])
def test_a_cancel_at_any_step_is_exact(hybrid: Any, lab: Any, k: int, s: int, rows: Any) -> None:
    """The memory is that of the committed passes, bit for bit, whenever the request was cancelled.

    At a fixed shape it is that of the emitted tokens one by one, too. At the natural shape
    a row's last bits depend on how many rows its pass had, so only passes can be compared.
    """
    engine = hybrid("mtp", draft_max=k, snapshots=s, rows=rows)
    whole = lab.run(engine, PROMPT, k=k, snapshots=s, max_tokens=24).ids
    for polls in range(30):
        session = engine.session(SamplingConfig(), control=False)
        left = iter([False] * polls)
        outcome = lab.run(
            engine,
            PROMPT,
            k=k,
            snapshots=s,
            max_tokens=24,
            session=session,
            cancelled=lambda left=left: next(left, True),
        )
        assert outcome.finish is Finish.CANCELLED
        assert outcome.ids == whole[: len(outcome.ids)]
        text = [*PROMPT, *outcome.ids]
        assert session.target.position == len(text) - 1
        pieces = list(session.target._history)
        actual = after(session.target, [text[-1], *NEXT])
        assert np.array_equal(actual, after(committed_again(engine, pieces), [text[-1], *NEXT]))
        behind = after(fresh(engine), [*text[len(PROMPT) - 1 :], *NEXT])
        expected = behind[-1 - len(NEXT) :]
        if rows is None:
            assert np.allclose(actual, expected, atol=0.05)
        else:
            assert np.array_equal(actual, expected)


REPLAYS = pytest.mark.parametrize(
    "bound", [(7, 7, 0), (7, 6, 1), (6, 6, 0), (10, 6, 1)], ids="K{0[0]}-S{0[1]}".format
)
"""K, S, and the most replays of a request."""
RIGHT_AT_ONCE = {"qwen35": 33, "qwen35-wide": 153}
"""A prompt along the walk from here has its first six tokens all proposed right."""


def requests(lab: Any, engine: Any, **settings: Any) -> list[Outcome]:
    """A run of each of five prompts, with the ids of its control."""
    outcomes = []
    for start in (3, 30, 90, 150, 240):
        prompt = list(range(start, start + 9))
        outcome = lab.run(engine, prompt, **settings)
        assert outcome.ids == lab.run(engine, prompt, control=True, **settings).ids
        outcomes.append(outcome)
    return outcomes


@pytest.mark.complaint(n=7)
@pytest.mark.parametrize("target", RIGHT_AT_ONCE)
@REPLAYS
def test_replays_are_bounded(
    hybrid: Any, lab: Any, target: str, bound: tuple[int, int, int]
) -> None:
    """K wider than S replays at most once a request; the ids are the control's all along."""
    k, s, most = bound
    engine = hybrid("mtp", target=target, draft_max=k, snapshots=s)
    outcomes = requests(lab, engine, k=k, snapshots=s)
    assert max(outcome.counters.replays for outcome in outcomes) == most


@pytest.mark.parametrize("target", RIGHT_AT_ONCE)
@REPLAYS
def test_replays_are_bounded_at_adaptive_widths(
    hybrid: Any, lab: Any, target: str, bound: tuple[int, int, int]
) -> None:
    """Narrow at first, so a replay is never its first signal; wide, it replays once at most."""
    k, s, most = bound
    engine = hybrid("mtp", target=target, draft_max=k, snapshots=s)
    outcomes = requests(lab, engine, k=k, snapshots=s, controller="adaptive")
    narrow = [outcome.counters for outcome in outcomes]
    assert [(c.widened_round, c.replays) for c in narrow] == [(None, 0)] * 5
    assert {width for c in narrow for width, _ in c.widths} == {min(k, s)}
    prompt = list(range(RIGHT_AT_ONCE[target], RIGHT_AT_ONCE[target] + 40, 7))
    counters = lab.run(engine, prompt, k=k, snapshots=s, controller="adaptive").counters
    (first, rounds), *rest = counters.widths
    assert first == min(k, s)
    assert counters.replays <= most
    if k > s:  # the wide shape opened, and a replay closed it again
        assert (rounds, counters.widened_round) == (1, 1)
        assert [width for width, _ in rest] == ([k, s] if counters.replays else [k])


@pytest.fixture
def bare(lab: Any, models: Mapping[str, tuple[Path, ...]]) -> Iterator[Context]:
    """A context on the hybrid target with four snapshots, and nothing around it."""
    assert "qwen35" in models
    with ExitStack() as stack, lab.fds("qwen35") as fds:
        model = Model(fds, what="target")
        stack.callback(model.close)
        context = Context(model, ContextConfig(512, 32, 8, 1, snapshots=4))
        stack.callback(context.close)
        yield context


@pytest.mark.complaint(n=6)
def test_the_library_says_yes_and_is_wrong(bare: Context) -> None:
    """Why `trim` has a mind of its own: a whole pass is within the snapshots, but not in them."""
    tokens = [5, 12, 19, 100, 33, 47, 250, 61]
    bare.decode(tokens[:5], 0, outputs=0)
    expected = bare.decode([77], 5, outputs=1).copy()
    bare.clear()
    bare.decode(tokens[:5], 0, outputs=0)
    bare.decode(tokens[5:], 5, outputs=0)
    assert not bare.trim(5)
    assert bare.filled() == 8
    assert bare._forget(5)  # three rows of four snapshots, but the last decode had only three
    assert np.abs(bare.decode([77], 5, outputs=1) - expected).max() > 0.1


def test_a_second_trim_before_a_decode_is_refused(bare: Context) -> None:
    bare.decode([5, 12, 19, 100, 33], 0, outputs=0)
    assert bare.trim(4)
    assert not bare.trim(3)
    bare.decode([33, 34], 4, outputs=0)
    assert bare.trim(5)


def test_a_batch_without_room_beside_the_snapshots_is_refused() -> None:
    """The library ends the process over it."""
    with pytest.raises(ValueError, match="snapshots"):
        Context(None, ContextConfig(512, 8, 8, 1, snapshots=7))  # type: ignore[arg-type]


def test_a_micro_batch_of_a_whole_pass_is_enough(hybrid: Any, lab: Any) -> None:
    expected = lab.run(hybrid(), PROMPT).ids
    assert lab.run(hybrid(micro_batch=9), PROMPT).ids == expected
    alone = lab.open("off", target="qwen35", micro_batch=1, draft_max=0)
    assert lab.run(alone, PROMPT, k=0).error is None


@pytest.mark.complaint(n=12)
def test_a_micro_batch_without_room_beside_the_snapshots_is_refused(hybrid: Any) -> None:
    with pytest.raises(ValueError, match="too small"):
        hybrid(micro_batch=8)


def test_padding_without_snapshots_is_refused(hybrid: Any) -> None:
    with pytest.raises(PowerError) as caught:
        hybrid(rows=8, snapshots=6)
    assert caught.value.diagnostics[0].code == "P525"


def count_decodes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(rows, position) of every decode from here on."""
    seen: list[tuple[int, int]] = []
    decode = Context.decode

    def spy(self: Context, tokens: Any, position: int, *rest: Any, **more: Any) -> Any:
        seen.append((len(tokens), position))
        return decode(self, tokens, position, *rest, **more)

    monkeypatch.setattr(Context, "decode", spy)
    return seen
