"""Which match a lookup takes."""

import pytest

from power.backends.lookup import NgramContext, PromptLookup
from power.backends.none import NoProposer


def proposal(
    proposer: PromptLookup, prompt: list[int], emitted: list[int], limit: int
) -> list[int]:
    proposer.begin(prompt)
    if emitted:
        proposer.commit(emitted, 0)
    return list(proposer.propose(limit))


def test_the_longest_match_wins_over_a_later_short_one() -> None:
    text = [1, 2, 3, 7, 7, 9, 2, 3, 8, 1, 2, 3]
    assert proposal(PromptLookup(4), text, [], 4) == [7, 7, 9, 2]


def test_the_most_recent_of_equal_matches_wins() -> None:
    assert proposal(PromptLookup(2), [1, 2, 5, 1, 2, 6, 1, 2], [], 2) == [6, 1]


def test_no_more_than_asked_for_and_no_more_than_there_is() -> None:
    assert proposal(PromptLookup(8), [1, 2, 3, 4, 1, 2], [], 1) == [3]
    assert proposal(PromptLookup(8), [1, 2, 1, 2], [], 8) == [1, 2]
    assert proposal(PromptLookup(8), [1, 1, 1], [], 8) == [1]


@pytest.mark.parametrize("prompt", [[1], [1, 2], [1, 2, 3, 1], [1, 2, 3, 4, 5]])
def test_one_token_is_no_match(prompt: list[int]) -> None:
    assert proposal(PromptLookup(4), prompt, [], 4) == []
    assert proposal(NgramContext(4), prompt, [], 4) == []


def test_six_tokens_are_looked_for_as_five() -> None:
    prompt = [1, 2, 3, 4, 5, 6, 70, 0, 2, 3, 4, 5, 6, 80, 0, 1, 2, 3, 4, 5, 6]
    assert proposal(PromptLookup(1), prompt, [], 1) == [80]


def test_generated_text_comes_first_in_ngram_context() -> None:
    """A pair in the generated text against five tokens of the prompt."""
    prompt, emitted = [1, 2, 3, 4, 5, 60, 0], [4, 5, 70, 1, 2, 3, 4, 5]
    assert proposal(PromptLookup(1), prompt, emitted, 1) == [60]
    assert proposal(NgramContext(1), prompt, emitted, 1) == [70]


def test_ngram_context_falls_back_to_the_prompt() -> None:
    assert proposal(NgramContext(2), [1, 2, 3, 4], [9, 1, 2], 2) == [3, 4]


def test_restoring_takes_back_text_and_index() -> None:
    lookup = PromptLookup(3)
    lookup.begin([1, 2, 3])
    mark = lookup.checkpoint()
    lookup.commit([1, 2], 0)
    assert list(lookup.propose(3)) == [3, 1, 2]
    lookup.restore(mark)
    lookup.commit([2, 3], 0)
    assert list(lookup.propose(3)) == [2, 3]
    lookup.restore(mark)
    assert list(lookup.propose(3)) == []


def test_no_proposer_never_proposes() -> None:
    nothing = NoProposer()
    nothing.begin([1, 1, 1, 1])
    nothing.commit([1], 0)
    nothing.restore(nothing.checkpoint())
    assert (nothing.max_width, list(nothing.propose(5))) == (0, [])
