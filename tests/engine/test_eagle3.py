"""EAGLE-3 on real graphs: an encoder over the target's features, and a decoder that runs ahead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.heads import DRAWN, PROMPTS, Rounds, compared, without_features
from tools.build_drafts.catalogue import EAGLE_DRAFTS, LARGE_ROWS

HEADS = [head.name for head in EAGLE_DRAFTS]


def opened(lab: Any, name: str = "eagle3", *, target: str = "walk", **config: Any) -> Any:
    """An engine with the head `name`; K and S are 8."""
    settings = {"draft_max": 8, "snapshots": 8} | config
    return lab.open("eagle3", target=target, draft=name, **settings)


@pytest.mark.parametrize("name", HEADS)
def test_ids_equal_target_only(lab: Any, name: str) -> None:
    """For every width; and the head is right and wrong at every length of 7."""
    drafted, accepted, seen = compared(lab, opened(lab, name), [1, 3, 7, 8])
    assert 0 < accepted < drafted
    assert seen >= set(range(8))


@pytest.mark.parametrize("name", ["eagle3", "eagle3-own-d2t"])
def test_ids_equal_target_only_at_a_fixed_shape(lab: Any, name: str) -> None:
    drafted, accepted, _ = compared(lab, opened(lab, name, rows=9), [7])
    assert 0 < accepted < drafted


def test_sampled_ids_equal_target_only(lab: Any) -> None:
    drafted, accepted, _ = compared(lab, opened(lab), [7], sampling=DRAWN)
    assert 0 < accepted < drafted


def test_ids_equal_target_only_on_a_hybrid(lab: Any) -> None:
    drafted, accepted, _ = compared(lab, opened(lab, target="qwen35"), [7])
    assert 0 < accepted < drafted


def test_without_features_nothing_is_right(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = opened(lab)
    expected = lab.run(engine, PROMPTS[0], control=True)
    without_features(monkeypatch)
    actual = lab.run(engine, PROMPTS[0])
    assert actual.ids == expected.ids
    assert actual.counters.accepted == 0
    assert actual.counters.drafted > 0


@pytest.mark.parametrize("prompt", [0, 2], ids=["some tokens", "one token"])
@pytest.mark.parametrize("accepted", range(8))
def test_after_any_round_it_proposes_what_a_fresh_one_would(
    lab: Any, accepted: int, prompt: int
) -> None:
    """Whatever was accepted or not asked for, the memory is that of the text."""
    engine = opened(lab)
    rounds = Rounds(engine, PROMPTS[prompt])
    for _ in range(3):
        rounds.round(7, accepted)
        rounds.round(0, 0)
        rounds.round(3, 0)
    actual = rounds.proposer.propose(7)
    assert len(actual) == 7
    assert actual == Rounds(engine, rounds.text).proposer.propose(7)


def test_it_keeps_up_when_it_is_not_asked(lab: Any) -> None:
    """The rows that it owes its memory stay few."""
    engine = opened(lab)
    rounds = Rounds(engine, PROMPTS[0])
    for _ in range(40):
        rounds.round(0, 0)
    assert len(rounds.proposer.checkpoint().late) < 10
    assert rounds.proposer.propose(7) == Rounds(engine, rounds.text).proposer.propose(7)


def test_one_token_gives_nothing_to_go_by(lab: Any) -> None:
    rounds = Rounds(opened(lab), [5])
    assert rounds.proposer.propose(7) == []
    rounds.round(0, 0)
    assert len(rounds.proposer.propose(7)) == 7


def test_restore_forgets_proposals_and_commits(lab: Any) -> None:
    rounds = Rounds(opened(lab), PROMPTS[3])
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


def test_cancelled_then_continued(lab: Any) -> None:
    """Whenever a request is cancelled, its ids are a prefix, and the next one is unharmed."""
    engine = opened(lab)
    expected = lab.run(engine, PROMPTS[0])
    for polls in range(12):
        countdown = iter([False] * polls)
        cut = lab.run(engine, PROMPTS[0], cancelled=lambda left=countdown: next(left, True))
        assert cut.error is None
        assert cut.ids == expected.ids[: len(cut.ids)]
        again = lab.run(engine, PROMPTS[0])
        assert again.ids == expected.ids
        assert again.counters.accepted == expected.counters.accepted


def test_p_min_shortens_proposals_and_nothing_else(lab: Any) -> None:
    drafted = []
    expected = lab.run(opened(lab), PROMPTS[0], control=True)
    for p_min in (0.0, 0.1, 0.6):
        actual = lab.run(opened(lab, draft_p_min=p_min), PROMPTS[0])
        assert actual.ids == expected.ids
        drafted.append(actual.counters.drafted)
    assert drafted[0] > drafted[1] > drafted[2]


def test_a_prefix_leaves_the_other_tokens_out(lab: Any) -> None:
    engine = opened(lab, fr_rule="prefix", fr_vocab_size=180)
    for anchor in range(60, 80):
        assert all(token < 180 for token in Rounds(engine, [50, anchor]).proposer.propose(7))
    outcome = lab.run(engine, PROMPTS[0])
    assert outcome.ids == lab.run(engine, PROMPTS[0], control=True).ids
    assert 0 < outcome.counters.accepted < outcome.counters.drafted


def test_a_prefix_of_a_larger_vocabulary(lab: Any) -> None:
    engine = opened(
        lab, "eagle3-large", target="walk-large", fr_rule="prefix", fr_vocab_size=LARGE_ROWS
    )
    drafted, accepted, _ = compared(lab, engine, [7])
    assert 0 < accepted < drafted
