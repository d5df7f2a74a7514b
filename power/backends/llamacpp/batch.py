"""One reusable `llama_batch` over numpy arrays: tokens of sequence 0 at following positions."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from power.backends.llamacpp.library import native


class Batch:
    """Arrays for up to `capacity` tokens, filled in place for every decode."""

    def __init__(self, capacity: int) -> None:
        lib = native()
        self.capacity = capacity
        self._token = np.zeros(capacity, np.int32)
        self._position = np.zeros(capacity, np.int32)
        self._output = np.zeros(capacity, np.int8)
        self._sequences = np.ones(capacity, np.int32)  # every token belongs to one sequence
        self._sequence = np.zeros(1, np.int32)  # and that is sequence 0
        self._sequence_of = np.full(capacity, self._sequence.ctypes.data, np.uintp)
        self._offsets = np.arange(capacity, dtype=np.int32)
        raw = lib.llama_batch()
        raw.token = self._token.ctypes.data_as(ctypes.POINTER(lib.llama_token))
        raw.embd = None
        raw.pos = self._position.ctypes.data_as(ctypes.POINTER(lib.llama_pos))
        raw.n_seq_id = self._sequences.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        raw.seq_id = self._sequence_of.ctypes.data_as(
            ctypes.POINTER(ctypes.POINTER(lib.llama_seq_id))
        )
        raw.logits = self._output.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))
        self._raw = raw

    def fill(self, tokens: Sequence[int], position: int, outputs: int) -> Any:
        """The batch holding `tokens` from `position` on.

        outputs: how many of the last rows give logits (0: none).
        """
        count = len(tokens)
        if not 0 < count <= self.capacity:
            # The library aborts on a batch above n_batch.
            msg = f"a batch of {count} tokens, room for {self.capacity}"
            raise ValueError(msg)
        self._token[:count] = tokens
        np.add(self._offsets[:count], position, out=self._position[:count])
        self._output[: count - outputs] = 0
        self._output[count - outputs : count] = 1
        self._raw.n_tokens = count
        return self._raw
