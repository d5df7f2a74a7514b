"""One reusable `llama_batch` over numpy arrays: rows of sequence 0 at following positions."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from power.backends.llamacpp.library import native

Rows = npt.NDArray[np.float32]


class Batch:
    """Arrays for up to `capacity` rows, filled in place for every decode.

    width: floats of an embedding row, 0 for a batch of tokens only. axes: how
    many coordinates the position of a row without a token has; of text, all
    but the last are the same.
    """

    def __init__(self, capacity: int, width: int = 0, axes: int = 1) -> None:
        lib = native()
        self.capacity = capacity
        self.width = width
        self._axes = axes
        self._token = np.zeros(capacity, np.int32)
        self._embedding = np.zeros((capacity if width else 0, width), np.float32)
        self._position = np.zeros(capacity * axes, np.int32)
        self._output = np.zeros(capacity, np.int8)
        self._sequences = np.ones(capacity, np.int32)  # every row belongs to one sequence
        self._sequence = np.zeros(1, np.int32)  # and that is sequence 0
        self._sequence_of = np.full(capacity, self._sequence.ctypes.data, np.uintp)
        self._offsets = np.arange(capacity, dtype=np.int32)
        self._token_pointer = self._token.ctypes.data_as(ctypes.POINTER(lib.llama_token))
        self._embedding_pointer = self._embedding.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        raw = lib.llama_batch()
        raw.pos = self._position.ctypes.data_as(ctypes.POINTER(lib.llama_pos))
        raw.n_seq_id = self._sequences.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        raw.seq_id = self._sequence_of.ctypes.data_as(
            ctypes.POINTER(ctypes.POINTER(lib.llama_seq_id))
        )
        raw.logits = self._output.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))
        self._raw = raw

    def fill(
        self,
        tokens: Sequence[int] | None,
        position: int,
        outputs: int,
        embeddings: Rows | None = None,
    ) -> Any:
        """The batch holding these rows from `position` on: tokens, embeddings, or both.

        outputs: how many of the last rows give logits (0: none). embeddings:
        float32 [rows, width]; the library reads a row without asking how wide
        it is, and aborts on a batch above its own capacity.
        """
        if tokens is None and embeddings is None:
            raise ValueError("a batch of neither tokens nor embeddings")
        count = len(tokens) if tokens is not None else len(embeddings)  # type: ignore[arg-type]
        if not 0 < count <= self.capacity:
            msg = f"a batch of {count} rows, room for {self.capacity}"
            raise ValueError(msg)
        self._raw.token = self._raw.embd = None
        if tokens is not None:
            self._token[:count] = tokens
            self._raw.token = self._token_pointer
        if embeddings is not None:
            if embeddings.shape != (count, self.width) or not self.width:
                msg = f"embeddings of {embeddings.shape}, expected {(count, self.width)}"
                raise ValueError(msg)
            self._embedding[:count] = embeddings
            self._raw.embd = self._embedding_pointer
        np.add(self._offsets[:count], position, out=self._position[:count])
        if tokens is None and self._axes > 1:  # one coordinate of all rows after the other
            self._position[count : count * self._axes] = 0
            for axis in range(1, self._axes - 1):
                at = axis * count
                self._position[at : at + count] = self._position[:count]
        self._output[: count - outputs] = 0
        self._output[count - outputs : count] = 1
        self._raw.n_tokens = count
        return self._raw
