"""The incremental n-gram index proposes what a search from scratch would."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from power.backends.lookup import LONGEST, SHORTEST, NgramContext, PromptLookup

WIDTH = 8
token = st.integers(0, 2)
rounds = st.lists(st.tuples(st.lists(token, min_size=1, max_size=6), st.booleans()), max_size=12)


def search(text: Sequence[int], first: int, limit: int) -> list[int] | None:
    """What followed the most recent earlier occurrence of the longest suffix found."""
    for n in range(LONGEST, SHORTEST - 1, -1):
        suffix = list(text[len(text) - n :]) if n <= len(text) else None
        for start in range(len(text) - n - 1, first - 1, -1):
            if list(text[start : start + n]) == suffix:
                return list(text[start + n : start + n + limit])
    return None


@settings(max_examples=400)
@given(st.lists(token, min_size=1, max_size=30), rounds, st.integers(1, WIDTH))
def test_lookup_equals_a_search_from_scratch(
    prompt: list[int], turns: list[tuple[list[int], bool]], limit: int
) -> None:
    """After each round, kept or rolled back (twice: a checkpoint outlives its use)."""
    whole, generated = PromptLookup(WIDTH), NgramContext(WIDTH)
    text = list(prompt)
    for proposer in (whole, generated):
        proposer.begin(prompt)
    for emitted, kept in turns:
        marks = [(p, p.checkpoint()) for p in (whole, generated)]
        _compare(whole, generated, text, len(prompt), limit)
        for proposer, mark in marks:
            proposer.commit(emitted, 0)
            if not kept:
                proposer.restore(mark)
                proposer.commit(emitted[::-1], 0)
                proposer.restore(mark)
        if kept:
            text += emitted
    _compare(whole, generated, text, len(prompt), limit)


def _compare(
    whole: PromptLookup, generated: NgramContext, text: list[int], prompt: int, limit: int
) -> None:
    anywhere = search(text, 0, limit)
    assert list(whole.propose(limit)) == (anywhere or [])
    recent = search(text, prompt, limit)
    assert list(generated.propose(limit)) == (recent or anywhere or [])
