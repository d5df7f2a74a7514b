"""One reusable `llama_batch`: rows of sequence 0 at following positions, written in place.

Between two passes nothing of Python's is left in the caches, so what a pass of a
few rows costs here is the number of things it touches: numpy would be most of it.
"""

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
        self._token = (lib.llama_token * capacity)()
        self._embedding = np.zeros((capacity if width else 0, width), np.float32)
        self._position = (lib.llama_pos * (capacity * axes))()
        self._output = (ctypes.c_int8 * capacity)()
        self._flagged = (0, 0)  # rows, and how many of the last give logits, of `_output`
        raw = self._raw = lib.llama_batch()
        raw.token, raw.pos, raw.logits = self._token, self._position, self._output
        raw.n_seq_id = (ctypes.c_int32 * capacity)(*[1] * capacity)  # every row is of one sequence
        sequence = ctypes.pointer(lib.llama_seq_id(0))  # and that is sequence 0
        raw.seq_id = (type(sequence) * capacity)(*[sequence] * capacity)
        if width:
            raw.embd = self._embedding.ctypes.data_as(ctypes.POINTER(ctypes.c_float))

    def fill(
        self,
        tokens: Sequence[int] | None,
        position: int,
        outputs: int,
        embeddings: Rows | None = None,
    ) -> Any:
        """The batch holding these rows from `position` on: tokens, embeddings, or both.

        outputs: how many of the last rows give logits (0: none). embeddings:
        float32 [rows, width], for a batch that has a width; the library reads a
        row without asking how wide it is, and aborts on a batch above its own
        capacity.
        """
        count = len(tokens if embeddings is None else embeddings)  # type: ignore[arg-type]
        if not 0 < count <= self.capacity:
            msg = f"a batch of {count} rows, room for {self.capacity}"
            raise ValueError(msg)
        token, positions = self._token, self._position
        for row in range(count):
            positions[row] = position + row
            if tokens is not None:
                token[row] = tokens[row]
        if self.width or embeddings is not None:
            self._embed(tokens, embeddings, count)
        if self._flagged != (count, outputs):
            flags: list[Any] = [0] * (count - outputs) + [1] * outputs
            self._output[:count] = flags
            self._flagged = (count, outputs)
            self._raw.n_tokens = count
        return self._raw

    def _embed(self, tokens: Sequence[int] | None, embeddings: Rows | None, count: int) -> None:
        """The part of `fill` that embeddings need."""
        if embeddings is None or embeddings.shape != (count, self.width):
            found = None if embeddings is None else embeddings.shape
            msg = f"embeddings of {found}, expected {(count, self.width)}"
            raise ValueError(msg)
        self._embedding[:count] = embeddings
        self._raw.token = None if tokens is None else self._token
        if tokens is None:
            for axis in range(1, self._axes):  # one coordinate of all rows after the other
                last = axis == self._axes - 1
                values = [0] * count if last else self._position[:count]
                self._position[axis * count : (axis + 1) * count] = values
