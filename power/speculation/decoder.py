"""From tokens to text: exact bytes, let out in whole characters.

A token may end inside a character, and a stop sequence may span tokens and
rounds. The decoder keeps every byte, finds completed stop sequences, and lets
out only bytes that can neither be part of a stop sequence to come nor an
unfinished character.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import cast

from power.speculation.protocols import Vocabulary

_NOT_ASCII = 0x80


class Decoder:
    """The text of one request, with a checkpoint that costs two integers."""

    __slots__ = (
        "_beginnings",
        "_cut",
        "_last_bytes",
        "_longest",
        "_piece",
        "_released",
        "_stops",
        "_text",
    )

    def __init__(self, vocabulary: Vocabulary, stop: Sequence[bytes] = ()) -> None:
        if not all(stop):
            raise ValueError("a stop sequence needs at least one byte")
        self._piece = vocabulary.piece
        self._stops = tuple(stop)
        self._longest = max(map(len, self._stops), default=0)
        self._last_bytes = frozenset(stop[-1] for stop in self._stops)
        self._beginnings = frozenset(s[:n] for s in self._stops for n in range(1, len(s)))
        self._text = bytearray()
        self._released = 0  # bytes that `take` has let out
        self._cut: int | None = None  # where the first completed stop sequence starts

    @property
    def text(self) -> bytes:
        """All text so far, byte for byte, without a completed stop sequence."""
        return bytes(self._text[: self._cut])

    def push(self, token: int) -> bool:
        """Add the bytes of `token`; True when they complete a stop sequence."""
        piece = self._piece(token)
        self._text += piece
        if not self._stops or self._last_bytes.isdisjoint(piece):
            return False  # nearly every token: it holds the last byte of no stop sequence
        return self._completes(len(piece))

    def take(self, *, final: bool) -> bytes:
        """The bytes that can be let out and were not yet; all of them together are `text`.

        A character comes whole, and bytes that can belong to none come as they are:
        decoded with U+FFFD for these, the chunks together are `text` so decoded.
        `final` lets out what was held back for more to come.
        """
        text, start = self._text, self._released
        if self._cut is not None:
            end = self._cut
        else:
            end = len(text) if final or not self._stops else len(text) - self._held()
        if start == end:
            return b""
        if text[end - 1] >= _NOT_ASCII and not final:  # the end of a character, or a part of one
            end = start + codecs.utf_8_decode(text[start:end], "replace")[1]
        self._released = end
        return bytes(text[start:end])

    def checkpoint(self) -> object:
        """The state between two rounds."""
        return len(self._text), self._released

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`; a round that completed a stop sequence is open again."""
        length, self._released = cast(tuple[int, int], checkpoint)
        del self._text[length:]
        self._cut = None

    def _completes(self, added: int) -> bool:
        """Find stop sequences that end in the last `added` bytes."""
        start = max(0, len(self._text) - added - self._longest + 1)
        found = [at for stop in self._stops if (at := self._text.find(stop, start)) >= 0]
        if not found:
            return False
        self._cut = min(found)
        return True

    def _held(self) -> int:
        """Length of the longest end of the text that begins a stop sequence."""
        text = self._text
        for length in range(min(self._longest - 1, len(text) - self._released), 0, -1):
            if bytes(text[-length:]) in self._beginnings:
                return length
        return 0
