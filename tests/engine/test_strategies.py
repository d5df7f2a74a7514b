"""On a real engine, no proposer, width or shape changes what the target says."""

from __future__ import annotations

from typing import Any

import pytest

from power.backends.interface import SamplingConfig
from power.speculation.outcome import Finish

PROMPTS = ([1, 10, 20, 30, 40], [5], list(range(40, 110)))
# A prompt that the walk comes back to, so that lookup finds something to copy.
COPYING = [*range(60, 90)] * 2
STRATEGIES = ("prompt-lookup", "ngram-context", "draft-model")


@pytest.mark.parametrize("rows", [None, 8])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ids_equal_target_only(lab: Any, strategy: str, rows: int | None) -> None:
    """For K of 1, 3 and 7, at the natural and at a fixed shape."""
    engine = lab.open(strategy, rows=rows)
    for prompt in (*PROMPTS, COPYING):
        expected = lab.run(engine, prompt, control=True)
        assert expected.error is None
        assert expected.counters.drafted == 0
        for k in (1, 3, 7):
            actual = lab.run(engine, prompt, k=k)
            assert actual.error is None
            assert (actual.ids, actual.text) == (expected.ids, expected.text)


def test_the_draft_is_right_and_wrong_at_every_length(lab: Any) -> None:
    """The pair the other tests lean on rejects every number of tokens from 0 to 7."""
    engine = lab.open("draft-model", rows=8)
    accepted = set()
    for prompt in PROMPTS:
        counters = lab.run(engine, prompt, max_tokens=200).counters
        by_length = [*counters.accepted_by_position, 0]
        rounds = [counters.rounds, *counters.accepted_by_position]
        accepted |= {i for i in range(8) if rounds[i] > by_length[i]}
    assert accepted == set(range(8))


def test_a_draft_that_is_the_target_is_always_right(lab: Any) -> None:
    engine = lab.open("draft-model", draft="target", rows=8)
    counters = lab.run(engine, PROMPTS[0], max_tokens=200).counters
    assert counters.drafted == counters.accepted > 150


def test_lookup_copies_what_repeats(lab: Any) -> None:
    engine = lab.open("prompt-lookup", rows=8)
    assert lab.run(engine, COPYING, max_tokens=50).counters.drafted > 0


def test_p_min_shortens_proposals_and_nothing_else(lab: Any) -> None:
    sure = lab.open("draft-model", draft_p_min=0.0)
    expected = lab.run(sure, PROMPTS[0])
    doubtful = lab.open("draft-model", draft_p_min=0.9)
    actual = lab.run(doubtful, PROMPTS[0])
    assert actual.ids == expected.ids
    assert actual.counters.drafted < expected.counters.drafted


@pytest.mark.complaint(n=11)
@pytest.mark.parametrize("rows", [None, 8])
@pytest.mark.parametrize("left", [1, 2, 7, 8, 9, 20])
def test_the_context_ends_alike(lab: Any, rows: int | None, left: int) -> None:
    prompt = PROMPTS[0]
    engine = lab.open("draft-model", rows=rows, context=len(prompt) + left)
    expected = lab.run(engine, prompt, context=len(prompt) + left, control=True)
    actual = lab.run(engine, prompt, context=len(prompt) + left)
    assert actual.finish is expected.finish is Finish.CONTEXT
    assert actual.ids == expected.ids
    assert len(actual.ids) == left + 1


@pytest.mark.complaint(n=9)
def test_the_end_token_ends_the_request(lab: Any) -> None:
    """The model `ending` walks from any byte to `~` and from there to the end."""
    engine = lab.open("draft-model", target="ending", draft="ending")
    expected = lab.run(engine, [50], max_tokens=400, control=True)
    actual = lab.run(engine, [50], max_tokens=400)
    assert actual.finish is expected.finish is Finish.END
    assert actual.ids == expected.ids
    assert engine.vocabulary.is_end(actual.ids[-1])
    assert actual.text.endswith(b"~")


@pytest.mark.complaint(n=9)
def test_a_stop_sequence_is_cut_wherever_it_falls(lab: Any) -> None:
    engine = lab.open("draft-model", rows=8)
    whole = lab.run(engine, PROMPTS[0], control=True)
    for start in range(20, 30):
        stop = whole.text[start : start + 3]
        cut = whole.text.index(stop)
        for control in (True, False):
            outcome = lab.run(engine, PROMPTS[0], stop=[stop], control=control)
            assert outcome.finish is Finish.STOP
            assert outcome.text == whole.text[:cut]
            assert outcome.ids == whole.ids[: len(outcome.ids)]


def test_cancelled_then_continued(lab: Any) -> None:
    """Whenever a request is cancelled, its ids are a prefix, and the next one is unharmed."""
    engine = lab.open("draft-model")
    expected = lab.run(engine, PROMPTS[0], control=True)
    for polls in range(40):
        countdown = iter([False] * polls)
        cut = lab.run(engine, PROMPTS[0], cancelled=lambda left=countdown: next(left, True))
        assert cut.finish is Finish.CANCELLED
        assert cut.ids == expected.ids[: len(cut.ids)]
        assert lab.run(engine, PROMPTS[0], max_tokens=20).ids == expected.ids[:20]


def test_a_refused_trim_is_replayed(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that drops nothing costs replays, never a token."""
    engine = lab.open("draft-model")
    expected = lab.run(engine, PROMPTS[0])
    monkeypatch.setattr("power.backends.llamacpp.context.Context.trim", lambda _self, _cells: False)
    actual = lab.run(engine, PROMPTS[0])
    assert actual.error is None
    assert actual.ids == expected.ids
    assert actual.counters.replays > 5


def test_a_trim_that_only_claims_to_work_is_noticed(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = lab.open("draft-model")
    expected = lab.run(engine, PROMPTS[0])
    monkeypatch.setattr("power.backends.llamacpp.context.Context.trim", lambda _self, _cells: True)
    actual = lab.run(engine, PROMPTS[0])
    assert actual.ids == expected.ids
    assert actual.counters.replays > 5


def test_a_failed_evaluation_keeps_what_was_emitted(lab: Any) -> None:
    """The context is made for fewer cells than the request believes."""
    engine = lab.open("off", context=200)  # 256 cells with the library's rounding
    outcome = lab.run(engine, PROMPTS[0], max_tokens=400, control=True)
    assert outcome.finish is Finish.FAILED
    assert "room" in str(outcome.error)
    assert len(outcome.ids) > 200
    again = lab.run(engine, PROMPTS[0], max_tokens=100)
    assert again.ids == outcome.ids[:100]


STOCHASTIC = SamplingConfig(temperature=12.0, top_k=40, top_p=0.95, min_p=0.01, seed=11)
SAMPLINGS = {
    "draw": STOCHASTIC,
    "typical": SamplingConfig(temperature=12.0, typical_p=0.9, seed=11),
    "penalty": SamplingConfig(repeat_penalty=4.0, repeat_last_n=16),
    "grammar": SamplingConfig(grammar='root ::= [a-f] [a-f]* "."'),
    "all": SamplingConfig(
        temperature=20.0, top_k=50, repeat_penalty=1.5, grammar='root ::= [a-p]+ "."', seed=3
    ),
}


@pytest.mark.complaint(n=13)
@pytest.mark.parametrize("name", SAMPLINGS)
def test_sampling_does_not_depend_on_the_width(lab: Any, name: str) -> None:
    """One draw a token: a seed gives the same ids for every K, and without a proposer."""
    engine = lab.open("draft-model", rows=8)
    sampling = SAMPLINGS[name]
    for prompt in (PROMPTS[0], COPYING):
        expected = lab.run(engine, prompt, sampling=sampling, control=True)
        assert expected.error is None
        for k in range(8):
            actual = lab.run(engine, prompt, k=k, sampling=sampling)
            assert actual.error is None
            assert (actual.ids, actual.finish) == (expected.ids, expected.finish)


def test_each_sampler_setting_has_an_effect(lab: Any) -> None:
    engine = lab.open("off")

    def ids(**settings: Any) -> tuple[int, ...]:
        result: tuple[int, ...] = lab.run(engine, COPYING, sampling=SamplingConfig(**settings)).ids
        return result

    plain = ids()
    drawn = ids(temperature=30.0, seed=1)
    assert drawn == ids(temperature=30.0, seed=1)
    assert len({plain, drawn, ids(temperature=30.0, seed=2)}) == 3
    assert ids(temperature=30.0, top_k=1, seed=1) == plain
    assert ids(temperature=30.0, top_p=0.0, seed=1) == plain
    assert ids(temperature=30.0, min_p=1.0, seed=1) == plain
    assert ids(temperature=30.0, typical_p=0.2, seed=1) != drawn
    assert ids(temperature=0.0, repeat_penalty=100.0) != plain or len(set(plain)) == len(plain)


@pytest.mark.complaint(n=14)
def test_a_grammar_shapes_the_text(lab: Any) -> None:
    engine = lab.open("draft-model")
    outcome = lab.run(
        engine, PROMPTS[0], sampling=SamplingConfig(grammar='root ::= "yes " [0-9] [0-9] "."')
    )
    assert outcome.finish is Finish.END
    assert outcome.text[:4] == b"yes "
    assert outcome.text[4:6].isdigit()
    assert outcome.text[6:] == b"."
