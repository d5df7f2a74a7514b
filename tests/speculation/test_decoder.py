"""Characters and stop sequences that are cut by tokens."""

import pytest

from power.backends.scripted.model import Vocabulary, byte_vocabulary
from power.speculation.decoder import Decoder

BYTES = byte_vocabulary()
SAMPLES = ("😀", "日本", "é", "👩‍👩‍👧", "a€b", "𝄞x")


def push(decoder: Decoder, data: bytes) -> bool:
    """Push bytes one token each; whether the last one completed a stop sequence."""
    return [decoder.push(byte) for byte in data][-1]


@pytest.mark.parametrize("text", SAMPLES)
def test_a_character_is_shown_once_it_is_whole(text: str) -> None:
    """Split at every byte: before its last byte nothing of a character is shown."""
    data = text.encode()
    for split in range(1, len(data)):
        decoder = Decoder(BYTES)
        push(decoder, data[:split])
        first = decoder.take(final=False)
        assert first == data[:split].decode(errors="ignore").encode()
        push(decoder, data[split:])
        assert first + decoder.take(final=False) == data
        assert decoder.text == data


@pytest.mark.complaint(n=18)
@pytest.mark.parametrize("text", SAMPLES)
def test_pieces_of_any_size_give_the_same_text(text: str) -> None:
    """The same characters as two tokens, split at every byte."""
    data = text.encode()
    for split in range(1, len(data)):
        decoder = Decoder(Vocabulary([data[:split], data[split:]], frozenset()))
        decoder.push(0)
        shown = decoder.take(final=False)
        decoder.push(1)
        assert shown + decoder.take(final=False) == data


def test_bytes_of_no_character_come_as_they_are() -> None:
    decoder = Decoder(BYTES)
    push(decoder, b"a\xff\xc3(b")
    assert decoder.take(final=False) == decoder.text == b"a\xff\xc3(b"


def test_half_a_character_is_held_back_to_the_end() -> None:
    decoder = Decoder(BYTES)
    push(decoder, b"a\xe2\x82")
    assert decoder.take(final=False) == b"a"
    assert decoder.take(final=False) == b""
    assert decoder.take(final=True) == b"\xe2\x82"
    assert decoder.text == b"a\xe2\x82"


def test_a_stop_sequence_over_tokens_is_cut_and_its_beginning_never_shown() -> None:
    decoder = Decoder(BYTES, [b"END"])
    assert not push(decoder, b"oneE")
    assert decoder.take(final=False) == b"one"
    assert not push(decoder, b"N")
    assert decoder.take(final=False) == b""
    assert push(decoder, b"D")
    assert decoder.take(final=True) == b""
    assert decoder.text == b"one"


def test_what_turns_out_not_to_be_a_stop_sequence_is_let_out() -> None:
    decoder = Decoder(BYTES, [b"END"])
    push(decoder, b"oneEN")
    assert decoder.take(final=False) == b"one"
    push(decoder, b"E")
    assert decoder.take(final=False) == b"EN"
    assert decoder.take(final=True) == b"E"
    assert decoder.text == b"oneENE"


def test_the_earliest_of_several_stop_sequences_in_one_token_cuts() -> None:
    decoder = Decoder(Vocabulary([b"xaby"], frozenset()), [b"b", b"ab"])
    assert decoder.push(0)
    assert decoder.text == decoder.take(final=True) == b"x"


def test_a_stop_sequence_inside_a_longer_one_stops_first() -> None:
    """As one token at a time would: `bc` is complete before `abcd` can be."""
    decoder = Decoder(BYTES, [b"abcd", b"bc"])
    assert push(decoder, b"abc")
    assert decoder.take(final=True) == b"a"


def test_a_stop_sequence_in_the_middle_of_a_character() -> None:
    """Stop sequences are bytes: what is left of the character is not text."""
    decoder = Decoder(BYTES, [b"\x82"])
    assert push(decoder, b"a\xe2\x82")
    assert decoder.text == b"a\xe2"
    assert decoder.take(final=True) == b"a\xe2"


def test_a_token_without_text_changes_nothing() -> None:
    decoder = Decoder(Vocabulary([b"a", b""], frozenset()), [b"ab"])
    assert not decoder.push(0)
    assert not decoder.push(1)
    assert decoder.take(final=False) == b""
    assert decoder.text == b"a"


def test_a_stop_sequence_that_is_undone_never_was() -> None:
    decoder = Decoder(BYTES, [b"END"])
    push(decoder, b"xE")
    mark = decoder.checkpoint()
    assert push(decoder, b"ND")
    decoder.restore(mark)
    assert decoder.text == b"xE"
    push(decoder, b"F")
    assert decoder.take(final=True) == b"xEF"


def test_what_was_shown_in_a_round_that_is_undone_is_shown_again() -> None:
    decoder = Decoder(BYTES)
    mark = decoder.checkpoint()
    push(decoder, b"ab")
    assert decoder.take(final=False) == b"ab"
    decoder.restore(mark)
    push(decoder, b"cd")
    assert decoder.take(final=False) == b"cd"


def test_an_empty_stop_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        Decoder(BYTES, [b"a", b""])
