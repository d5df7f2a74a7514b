"""The target: passes over anchor and proposal, checked trims, exact replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from power.backends.errors import EngineError
from power.backends.llamacpp.context import Context, Row


@dataclass(frozen=True, slots=True)
class TargetCheckpoint:
    """Number of committed tokens. The cells below it are never written again."""

    position: int


class LlamaTarget:
    """`power.speculation.protocols.Target` on one context.

    rows: the fixed row count of every pass, or None for the natural shape. At
    a fixed shape the last token is repeated up to `rows`; those rows give
    logits too, so that every matrix product of a pass has the same shape, and
    are trimmed with the rejected ones.
    """

    def __init__(self, context: Context, vocabulary_size: int, *, rows: int | None) -> None:
        self._context = context
        self._vocabulary_size = vocabulary_size
        self._rows = rows
        self._history: list[int] = []  # committed tokens, to rebuild where a trim is refused
        self._pass: tuple[int, ...] = ()
        self._logits: Row = np.empty((0, vocabulary_size), np.float32)

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids."""
        return self._vocabulary_size

    @property
    def position(self) -> int:
        """Committed tokens in memory."""
        return len(self._history)

    def row(self, index: int) -> Row:
        """Logits after the anchor and `index` proposed tokens: float32 [vocabulary], a view.

        Valid until the next evaluation. Padding rows can not be read.
        """
        if not 0 <= index < len(self._pass):
            msg = f"row {index} of a pass of {len(self._pass)}"
            raise IndexError(msg)
        view: Row = self._logits[index]
        return view

    def prefill(self, tokens: Sequence[int]) -> None:
        """Evaluate and commit `tokens` in chunks of the context's batch."""
        size = self._context.batch_size
        for start in range(0, len(tokens), size):
            chunk = tokens[start : start + size]
            self._context.decode(chunk, self.position, outputs=0)
            self._history.extend(chunk)

    def checkpoint(self) -> TargetCheckpoint:
        """The committed state; costs nothing with a cache that is only appended to."""
        return TargetCheckpoint(self.position)

    def evaluate(self, tokens: Sequence[int]) -> None:
        """One pass at `position`; nothing is committed yet."""
        self._pass = ()
        padded = [*tokens]
        if self._rows is not None:
            if len(padded) > self._rows:
                msg = f"a pass of {len(padded)} tokens, the shape is fixed at {self._rows} rows"
                raise ValueError(msg)
            padded += padded[-1:] * (self._rows - len(padded))
        self._logits = self._context.decode(padded, self.position, outputs=len(padded))
        self._pass = tuple(tokens)

    def commit(self, keep: int) -> bool:
        """Keep the first `keep` rows of the last pass; False when the rest was not trimmed."""
        if not 1 <= keep <= len(self._pass):
            msg = f"keep {keep} rows of a pass of {len(self._pass)}"
            raise ValueError(msg)
        end = self.position + keep
        if not self._trimmed_to(end):
            return False
        self._history.extend(self._pass[:keep])
        self._pass = ()
        return True

    def replay(self, checkpoint: object, tokens: Sequence[int]) -> None:
        """Return to `checkpoint`, then evaluate and commit `tokens` in one pass."""
        self.restore(checkpoint)
        self.evaluate(tokens)
        if not self.commit(len(tokens)):
            raise EngineError(
                "decode", f"the engine did not drop the padding behind position {self.position}"
            )

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`, by a trim, or by evaluating everything again."""
        if not isinstance(checkpoint, TargetCheckpoint) or checkpoint.position > self.position:
            msg = f"no checkpoint of this target: {checkpoint!r}"
            raise ValueError(msg)
        self._pass = ()
        end = checkpoint.position
        del self._history[end:]
        if not self._trimmed_to(end):
            self._rebuild()

    def _trimmed_to(self, end: int) -> bool:
        """Whether the memory holds `end` cells, after a trim where it held more."""
        if self._context.filled() <= end:
            return self._context.filled() == end
        return self._context.trim(end) and self._context.filled() == end

    def _rebuild(self) -> None:
        tokens, self._history = self._history, []
        self._context.clear()
        self.prefill(tokens)
        if self._context.filled() != len(tokens):
            raise EngineError("decode", f"the engine lost its {len(tokens)} evaluated tokens")
