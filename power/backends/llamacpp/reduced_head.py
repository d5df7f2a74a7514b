"""Some rows of a model's output head, projected outside of the engine.

The engine's prediction (MTP) block has no reduced head: it projects a hidden
row on the whole vocabulary or not at all. Here it runs without outputs, and the
row is projected on the first N tokens (rule `prefix`), or on those of a table
(rule `d2t`). A draft that can not say a token costs acceptance of that token,
never the token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from power.backends.errors import EngineError
from power.backends.llamacpp.context import Row
from power.backends.llamacpp.tensor_file import Ids, Tensor, find_tensors

_HEADS = ("output.weight", "token_embd.weight")  # a model without the first shares the second
_OWN_HEAD = ".nextn.shared_head_head.weight"
_TABLE = "d2t"


class ReducedHead:
    """float32 weights [rows, width]: row i is token `ids[i]`, or token i without ids."""

    def __init__(self, weights: Row, ids: Ids | None = None) -> None:
        self._weights = weights
        self._ids = ids

    @property
    def rows(self) -> int:
        """How many tokens it can say."""
        return len(self._weights)

    def token(self, row: int) -> int:
        """The token of a row."""
        return row if self._ids is None else int(self._ids[row])

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
    return ReducedHead(_head(fds, rows).first_rows(rows))


def read_ranked_head(fds: Sequence[int], table: Sequence[int]) -> ReducedHead:
    """The rows of that head for the tokens of a table: the file `table`, one open descriptor.

    Raises EngineError `load` where there is no table, or no head that has its rows.
    """
    found = [] if len(table) != 1 else list(find_tensors(table[0], lambda n: n == _TABLE).values())
    if not found:
        raise EngineError("load", "the draft holds no table of tokens")
    ids = found[0].integers()
    if not len(ids) or int(ids.min()) < 0:
        raise EngineError("load", "the draft's table names no tokens")
    return ReducedHead(_head(fds, int(ids.max()) + 1).rows(ids), ids)


def _head(fds: Sequence[int], rows: int) -> Tensor:
    """The head that the block uses: its own, else the model's."""
    found: dict[str, Tensor] = {}
    for fd in fds:
        found |= find_tensors(fd, lambda name: name in _HEADS or name.endswith(_OWN_HEAD))
    own = [name for name in found if name.endswith(_OWN_HEAD)]
    for name in (*own, *_HEADS):
        if name in found and found[name].shape[0] >= rows:
            return found[name]
    raise EngineError("load", f"the model has no output head of {rows} rows")
