"""Text as it is let out equals text as it is kept, however tokens and rounds cut it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power.backends.scripted.model import byte_vocabulary
from power.speculation.decoder import Decoder

VOCABULARY = byte_vocabulary()
letters = st.text("ab€😀", max_size=12).map(str.encode)
broken = st.tuples(letters, st.binary(max_size=3)).map(b"".join)
text = letters | broken | st.binary(max_size=12)
stop = st.text("ab€", min_size=1, max_size=2).map(str.encode) | st.binary(min_size=1, max_size=4)


@pytest.mark.complaint(n=18)
@settings(max_examples=1500)
@given(text, st.lists(stop, max_size=3), st.lists(st.integers(1, 5), min_size=1), st.booleans())
def test_chunks_together_are_the_text(
    data: bytes, stops: list[bytes], rounds: list[int], undo: bool
) -> None:
    """For any bytes, any stop sequences, any rounds, with or without a rollback in each."""
    decoder = Decoder(VOCABULARY, stops)
    chunks = []
    at = turn = 0
    stopped = False
    while at < len(data) and not stopped:
        size = rounds[turn % len(rounds)]
        turn += 1
        if undo:
            mark = decoder.checkpoint()
            before = decoder.text
            for token in (*data[at : at + 2], *b"ab"):
                decoder.push(token)
            decoder.take(final=True)
            decoder.restore(mark)
            assert decoder.text == before
        for token in data[at : at + size]:
            at += 1
            stopped = decoder.push(token)
            if stopped:
                break
        chunks.append(decoder.take(final=False))
    chunks.append(decoder.take(final=True))
    ends = [data.find(s) + len(s) for s in stops if s in data]
    assert stopped == bool(ends)
    kept = data[: min(ends)] if ends else data
    cut = min((kept.find(s) for s in stops if s in kept), default=len(kept))
    assert b"".join(chunks) == decoder.text == kept[:cut]
    characters = [chunk.decode(errors="replace") for chunk in chunks]
    assert "".join(characters) == decoder.text.decode(errors="replace")
