"""The first rows of a model's output head, projected outside of the engine.

The engine's prediction (MTP) block has no reduced head: it projects a hidden
row on the whole vocabulary or not at all. Here it runs without outputs, and the
row is projected on the first N tokens alone. A draft that can not say a token
costs acceptance of that token, never the token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from power.backends.errors import EngineError
from power.backends.llamacpp.context import Row
from power.backends.llamacpp.tensor_file import Tensor, find_tensors

_HEADS = ("output.weight", "token_embd.weight")  # a model without the first shares the second
_OWN_HEAD = ".nextn.shared_head_head.weight"


class ReducedHead:
    """float32 weights [rows, width]: row i is token i."""

    def __init__(self, weights: Row) -> None:
        self._weights = weights

    @property
    def rows(self) -> int:
        """Tokens that it can say: ids below this."""
        return len(self._weights)

    def project(self, hidden: Row) -> Row:
        """Logits float32 [rows] of one normalised hidden row, float32 [width]."""
        # Not `@`: numpy's BLAS would start threads that spin beside the engine's own, and a
        # matrix read once is bound by memory anyway.
        logits: Row = np.einsum("ij,j->i", self._weights, hidden)
        return logits


def read_head(fds: Sequence[int], rows: int) -> ReducedHead:
    """The first `rows` rows of the output head that a prediction block uses, dequantised.

    fds: the model's shards, open. Reads no other tensor. Raises EngineError
    `load` where the file has no such head.
    """
    found: dict[str, Tensor] = {}
    for fd in fds:
        found |= find_tensors(fd, lambda name: name in _HEADS or name.endswith(_OWN_HEAD))
    own = [name for name in found if name.endswith(_OWN_HEAD)]
    for name in (*own, *_HEADS):
        if name in found and found[name].shape[0] >= rows:
            return ReducedHead(found[name].first_rows(rows))
    raise EngineError("load", f"the model has no output head of {rows} rows")
