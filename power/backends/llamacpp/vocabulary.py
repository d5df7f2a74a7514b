"""Text to tokens, tokens to bytes, and the end-of-generation set."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from power.backends.errors import EngineError
from power.backends.llamacpp.library import native
from power.backends.llamacpp.model import Model
from power.backends.pieces import Piece, Special, cut

_OVERFLOW = 1 << 31  # what the library answers when a count does not fit
_UNKNOWN, _CONTROL, _USER_DEFINED, _LSTRIP, _RSTRIP = 1, 8, 16, 128, 256  # llama_token_attr
_PIECE_BYTES = 64  # longer pieces are asked for again with their own size


class LlamaVocabulary:
    """`power.speculation.protocols.Vocabulary` of a loaded model."""

    def __init__(self, model: Model) -> None:
        lib = native()
        self._vocab: Any = model.vocab
        self._size = model.vocabulary_size
        self._pieces: dict[int, bytes] = {}
        ends = [t for t in range(self._size) if lib.llama_vocab_is_eog(self._vocab, t)]
        self.is_end: Callable[[int], bool] = frozenset(ends).__contains__
        self._bos: int = lib.llama_vocab_bos(self._vocab)
        self._eos: int = lib.llama_vocab_eos(self._vocab)
        self._adds_eos: bool = lib.llama_vocab_get_add_eos(self._vocab)

    def piece(self, token: int) -> bytes:
        """The bytes `token` adds to the text; empty for a control token."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._read_piece(token, special=False)
        return known

    def tokenize(
        self, text: str, *, special: bool, plain: Sequence[tuple[int, int]] = ()
    ) -> list[int]:
        """See `power.backends.interface.Engine.tokenize`.

        A BOS that a chat template wrote is not doubled, and no EOS is appended:
        the prompt is to be continued.
        """
        pieces = cut(text, plain, self._specials) if special and plain else [Piece(text, special)]
        ids: list[int] = []
        for index, piece in enumerate(pieces):
            ids += self._ids(piece, first=index == 0)
        return ids

    def _ids(self, piece: Piece, *, first: bool) -> list[int]:
        ids = self._tokenize(piece.text.encode("utf-8"), special=piece.special, first=first)
        if not first:
            return ids
        if piece.special and len(ids) > 1 and ids[0] == ids[1] == self._bos:
            del ids[0]
        if self._adds_eos and ids and ids[-1] == self._eos:
            del ids[-1]
        return ids

    @cached_property
    def _specials(self) -> list[Special]:
        """The tokens that the library finds by their spelling, in its order: longest first."""
        lib = native()
        found = []
        for token in range(self._size):
            kind = lib.llama_vocab_get_attr(self._vocab, token)
            if kind & (_UNKNOWN | _CONTROL | _USER_DEFINED):
                text = lib.llama_vocab_get_text(self._vocab, token)
                found.append((text, kind))
        found.sort(key=lambda item: -len(item[0]))
        return [
            Special(
                text.decode("utf-8", "replace"),
                control=bool(kind & (_UNKNOWN | _CONTROL)),
                strips_left=bool(kind & _LSTRIP),
                strips_right=bool(kind & _RSTRIP),
            )
            for text, kind in found
        ]

    def _tokenize(self, data: bytes, *, special: bool, first: bool) -> list[int]:
        lib = native()
        room = len(data) + 8  # no token is shorter than a byte, but BOS, EOS and a space prefix are
        while True:
            buffer = (lib.llama_token * room)()
            count = lib.llama_tokenize(
                self._vocab,
                data,
                len(data),
                buffer,
                room,
                first,  # add_special: BOS where the vocabulary says so
                special,
            )
            if 0 <= count <= room:
                return list(buffer[:count])
            if not room < -count < _OVERFLOW:
                break
            room = -count
        raise EngineError("decode", f"the engine could not tokenise a text of {len(data)} bytes")

    def _read_piece(self, token: int, *, special: bool) -> bytes:
        if not 0 <= token < self._size:
            msg = f"token {token} is outside the vocabulary of {self._size}"
            raise ValueError(msg)
        lib = native()
        room = _PIECE_BYTES
        for _ in range(2):
            buffer = ctypes.create_string_buffer(room)
            count = lib.llama_token_to_piece(self._vocab, token, buffer, room, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            room = -count
        raise EngineError("decode", f"the engine gave no text for token {token}")
