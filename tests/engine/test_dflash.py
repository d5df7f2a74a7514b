"""DFlash, DFlash2 and DSpark on real graphs: blocks over the target's own features."""

from __future__ import annotations

from typing import Any

import pytest

from power.backends.llamacpp import BACKEND
from tests.engine.heads import DRAWN, PROMPTS, Rounds, compared, without_features
from tools.build_drafts.catalogue import BLOCK_DRAFTS, LARGE_ROWS
from tools.build_drafts.dflash import BlockDraft

HEADS = {head.name: head for head in BLOCK_DRAFTS}
EACH = ("dflash", "dflash2", "dspark", "dspark-bonus")  # one a way to read a block


def opened(lab: Any, name: str, *, target: str = "walk", **config: Any) -> Any:
    """An engine with the head `name`, K as wide as its block allows."""
    head = HEADS[name]
    settings = {"draft_max": widest(head), "snapshots": widest(head)} | config
    return lab.open(head.kind, target=target, draft=name, **settings)


def widest(head: BlockDraft) -> int:
    """Most tokens of a proposal."""
    return head.block - (0 if head.kind == "dspark" and head.from_anchor else 1)


@pytest.mark.parametrize("name", HEADS)
def test_ids_equal_target_only(lab: Any, name: str) -> None:
    """For every width; and the head is right and wrong at every length."""
    most = widest(HEADS[name])
    widths = [k for k in (1, 3, 7, 8) if k <= most]
    drafted, accepted, seen = compared(lab, opened(lab, name), widths)
    assert 0 < accepted < drafted
    assert seen == set(range(most + 1))


@pytest.mark.complaint(n=1)
@pytest.mark.parametrize("name", ["dflash", "dflash-d2t", "dflash2-own", "dspark", "dspark-bonus"])
def test_ids_equal_target_only_at_a_fixed_shape(lab: Any, name: str) -> None:
    drafted, accepted, _ = compared(lab, opened(lab, name, rows=9), [7])
    assert 0 < accepted < drafted


@pytest.mark.parametrize("name", EACH)
def test_sampled_ids_equal_target_only(lab: Any, name: str) -> None:
    drafted, accepted, _ = compared(lab, opened(lab, name), [7], sampling=DRAWN)
    assert 0 < accepted < drafted


@pytest.mark.parametrize("name", EACH)
def test_ids_equal_target_only_on_a_hybrid(lab: Any, name: str) -> None:
    drafted, accepted, _ = compared(lab, opened(lab, name, target="qwen35"), [7])
    assert 0 < accepted < drafted


@pytest.mark.parametrize("name", EACH)
def test_without_features_nothing_is_right(
    lab: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened(lab, name)
    expected = lab.run(engine, PROMPTS[0], control=True)
    without_features(monkeypatch)
    actual = lab.run(engine, PROMPTS[0])
    assert actual.ids == expected.ids
    assert actual.counters.accepted == 0
    assert actual.counters.drafted > 0


@pytest.mark.parametrize("accepted", range(8))
@pytest.mark.parametrize("name", EACH)
def test_after_any_round_it_proposes_what_a_fresh_one_would(
    lab: Any, name: str, accepted: int
) -> None:
    """Whatever was accepted or not asked for, the memory is that of the text."""
    engine = opened(lab, name)
    rounds = Rounds(engine, PROMPTS[0])
    for _ in range(3):
        rounds.round(7, accepted)
        rounds.round(0, 0)
        rounds.round(3, 0)
    actual = rounds.proposer.propose(7)
    assert len(actual) == 7
    assert actual == Rounds(engine, rounds.text).proposer.propose(7)


@pytest.mark.parametrize("name", EACH)
def test_restore_forgets_proposals_and_commits(lab: Any, name: str) -> None:
    rounds = Rounds(opened(lab, name), PROMPTS[3])
    expected = rounds.proposer.propose(7)
    of_target, of_draft = rounds.target.checkpoint(), rounds.proposer.checkpoint()
    for accepted in (0, 3, 7):
        rounds.round(7, accepted)
        rounds.proposer.propose(5)
        rounds.target.restore(of_target)
        rounds.proposer.restore(of_draft)
        rounds.text = list(PROMPTS[3])
        assert rounds.proposer.propose(7) == expected
    with pytest.raises(ValueError, match="checkpoint"):
        rounds.proposer.restore(object())


@pytest.mark.parametrize("name", EACH)
def test_cancelled_then_continued(lab: Any, name: str) -> None:
    """Whenever a request is cancelled, its ids are a prefix, and the next one is unharmed."""
    engine = opened(lab, name)
    expected = lab.run(engine, PROMPTS[0])
    for polls in range(12):
        countdown = iter([False] * polls)
        cut = lab.run(engine, PROMPTS[0], cancelled=lambda left=countdown: next(left, True))
        assert cut.error is None
        assert cut.ids == expected.ids[: len(cut.ids)]
        again = lab.run(engine, PROMPTS[0])
        assert again.ids == expected.ids
        assert again.counters.accepted == expected.counters.accepted


def test_a_bare_pass_is_no_commit(lab: Any) -> None:
    """Committing tokens whose rows nobody evaluated is a defect, not a silent loss of memory."""
    rounds = Rounds(opened(lab, "dflash"), PROMPTS[0])
    with pytest.raises(RuntimeError, match="observed rows"):
        rounds.proposer.commit([7], 0)


@pytest.mark.parametrize(
    ("name", "width"),
    [("dflash", 7), ("dflash-nine", 8), ("dflash2", 7), ("dspark", 8), ("dspark-bonus", 7)],
)
def test_a_proposal_is_no_wider_than_a_block(lab: Any, name: str, width: int) -> None:
    engine = opened(lab, name, draft_max=12)
    assert Rounds(engine, PROMPTS[0]).proposer.max_width == width
    assert len(Rounds(engine, PROMPTS[0]).proposer.propose(12)) == width


@pytest.mark.parametrize("name", ["dflash", "dflash2", "dspark-unsure"])
def test_p_min_shortens_proposals_and_nothing_else(lab: Any, name: str) -> None:
    drafted = []
    expected = lab.run(opened(lab, name), PROMPTS[0], control=True)
    for p_min in (0.0, 0.25, 0.6):
        actual = lab.run(opened(lab, name, draft_p_min=p_min), PROMPTS[0])
        assert actual.ids == expected.ids
        drafted.append(actual.counters.drafted)
    assert drafted[0] > drafted[1] > drafted[2]


@pytest.mark.parametrize("p_min", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("name", ["dspark", "dspark-bonus"])
def test_a_proposal_ends_at_the_first_row_that_is_not_sure(
    lab: Any, name: str, p_min: float
) -> None:
    """The confidence of a row goes by the token before it: reading another row shows."""
    sure, doubtful = opened(lab, name), opened(lab, name, draft_p_min=p_min)
    cuts = set()
    for anchor in range(60, 90):
        whole = Rounds(sure, [50, anchor]).proposer.propose(7)
        before = [anchor, *whole]
        unsure = [i for i in range(7) if HEADS[name].sure(before[i]) < p_min]
        cut = unsure[0] if unsure else 7
        assert Rounds(doubtful, [50, anchor]).proposer.propose(7) == whole[:cut]
        cuts.add(cut)
    assert len(cuts) > 1


@pytest.mark.parametrize("name", ["dflash", "dspark"])
def test_a_prefix_leaves_the_other_tokens_out(lab: Any, name: str) -> None:
    """The first N ids are proposed as before, others never, and no id that is emitted changes."""
    whole = opened(lab, name)
    part = opened(lab, name, fr_rule="prefix", fr_vocab_size=180)
    for anchor in range(60, 80):
        expected = Rounds(whole, [50, anchor]).proposer.propose(7)
        actual = Rounds(part, [50, anchor]).proposer.propose(7)
        assert all(token < 180 for token in actual)
        known = next((i for i, token in enumerate(expected) if token >= 180), 7)
        assert actual[:known] == expected[:known]
        if name == "dspark":  # what follows was made for a token that is not proposed
            assert len(actual) == min(known + 1, 7)
    outcome = lab.run(part, PROMPTS[0])
    assert outcome.ids == lab.run(part, PROMPTS[0], control=True).ids
    assert 0 < outcome.counters.accepted < lab.run(whole, PROMPTS[0]).counters.accepted


@pytest.mark.parametrize(
    ("draft", "fr"),
    [
        ("dflash-large", {"fr_rule": "prefix", "fr_vocab_size": LARGE_ROWS}),
        ("dspark-large-d2t", {"fr_rule": "d2t", "fr_vocab_size": LARGE_ROWS}),
    ],
)
def test_a_reduced_head_over_a_larger_vocabulary(lab: Any, draft: str, fr: Any) -> None:
    kind = draft.partition("-")[0]
    engine = lab.open(kind, target="walk-large", draft=draft, **fr)
    drafted, accepted, _ = compared(lab, engine, [7])
    assert 0 < accepted < drafted


def test_every_kind_runs_on_this_build() -> None:
    kinds = ("dflash", "dflash2", "dspark", "eagle3")
    assert [BACKEND.describe().capabilities[kind] for kind in kinds] == [None] * 4
