"""Text as it is committed, handed on in whole characters."""

from __future__ import annotations

import codecs
from collections.abc import Callable


class CommittedText:
    """Collects committed bytes and hands them to `on_text` as str.

    A character may be split between two rounds, so that only what is still open
    at the very end is replaced (U+FFFD); bytes that can be no character are
    replaced where they stand. All pieces together are what
    `bytes.decode("utf-8", "replace")` makes of the whole.
    """

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._data = bytearray()
        self._on_text = on_text
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    @property
    def data(self) -> bytes:
        """All bytes so far."""
        return bytes(self._data)

    def add(self, data: bytes, *, final: bool = False) -> None:
        """Take in committed bytes; with `final` nothing comes after them."""
        self._data += data
        if self._on_text is not None and (piece := self._decode(data, final)):
            self._on_text(piece)

    def finish(self, whole: bytes) -> None:
        """Hand on what `whole` holds beyond the text so far, and end."""
        self.add(whole[len(self._data) :], final=True)
