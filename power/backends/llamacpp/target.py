"""The target: passes over anchor and proposal, checked trims, exact replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from power.backends.errors import EngineError
from power.backends.llamacpp.context import Context, Row, State
from power.backends.llamacpp.drafting import RowObserver

Piece = tuple[tuple[int, ...], int, int]
"""Committed tokens that one decode evaluated, its rows, and how many of them gave logits.

The bits of a row depend on how many rows its decode had. Evaluated again at the
same count, the memory holds the same bits.
"""


class LlamaTarget:
    """`power.speculation.protocols.Target` on one context.

    rows: the fixed row count of every pass, or None for the natural shape. At
    a fixed shape the last token is repeated up to `rows`; those rows give
    logits too, so that every matrix product of a pass has the same shape, and
    are trimmed with the rejected ones. chunk: tokens of a prefill pass, None for as
    many as the context takes. observer: sees the real rows of every
    decode before the next one.

    A recurrent target cannot drop a whole pass. Where the coming pass may
    reject more rows than it has snapshots, its state is copied first; where
    something else asks for a way back (a cancel, a failure), the committed
    pieces are evaluated again as they were.
    """

    def __init__(
        self,
        context: Context,
        vocabulary_size: int,
        *,
        rows: int | None,
        chunk: int | None = None,
        observer: RowObserver | None = None,
    ) -> None:
        self._context = context
        self._chunk = min(chunk or context.batch_size, context.batch_size)
        self._vocabulary_size = vocabulary_size
        self._rows = rows
        self._observer = observer
        self._history: list[Piece] = []
        self._position = 0
        self._pass: tuple[int, ...] = ()
        self._pass_rows = 0
        self._saved: tuple[int, State] | None = None  # committed tokens, state
        self._intact = True  # no evaluation failed half way since the memory was last set up
        self._logits: Row = np.empty((0, vocabulary_size), np.float32)

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids."""
        return self._vocabulary_size

    @property
    def position(self) -> int:
        """Committed tokens in memory."""
        return self._position

    def row(self, index: int) -> Row:
        """Logits after the anchor and `index` proposed tokens: float32 [vocabulary], a view.

        Valid until the next evaluation. Padding rows can not be read.
        """
        if not 0 <= index < len(self._pass):
            msg = f"row {index} of a pass of {len(self._pass)}"
            raise IndexError(msg)
        view: Row = self._logits[index]
        return view

    def chosen(self, index: int) -> int:
        """The token that the device chose for row `index`, as `Context.choose_on_device` asked."""
        return self._context.chosen(index)

    def prefill(self, tokens: Sequence[int], taken: Callable[[int], None] = lambda _: None) -> None:
        """Evaluate and commit `tokens`, `chunk` at a time; `taken` hears how many are in."""
        size = self._chunk
        for start in range(0, len(tokens), size):
            chunk = tuple(tokens[start : start + size])
            self._decode(chunk, len(chunk), 0)
            self._commit((chunk, len(chunk), 0))
            taken(start + len(chunk))

    def checkpoint(self) -> int:
        """The number of committed tokens: the cells below it are never written again.

        It costs nothing; a copy is made by the pass that may need it.
        """
        return self._position

    def evaluate(self, tokens: Sequence[int]) -> None:
        """One pass at `position`; nothing is committed yet."""
        self._pass = ()
        rows = self._rows or len(tokens)
        if len(tokens) > rows:
            msg = f"a pass of {len(tokens)} tokens, the shape is fixed at {rows} rows"
            raise ValueError(msg)
        if self._context.recurrent and rows - 1 > self._context.snapshots:
            self._saved = (self.position, self._context.save())
        self._decode(tokens, rows, rows)
        self._pass, self._pass_rows = tuple(tokens), rows

    def commit(self, keep: int) -> bool:
        """Keep the first `keep` rows of the last pass; False when the rest was not trimmed."""
        if not 1 <= keep <= len(self._pass):
            msg = f"keep {keep} rows of a pass of {len(self._pass)}"
            raise ValueError(msg)
        end = self._position + keep
        if not self._context.trimmed_to(end):
            return False
        self._history.append((self._pass[:keep], self._pass_rows, self._pass_rows))
        self._position = end
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
        """Return to `checkpoint`: by a trim, by the saved state, or by evaluating again."""
        if not isinstance(checkpoint, int) or checkpoint > self._position:
            msg = f"no checkpoint of this target: {checkpoint!r}"
            raise ValueError(msg)
        self._pass = ()
        end = checkpoint
        while self._position > end:
            self._position -= len(self._history.pop()[0])
        if self._saved is not None and self._saved[0] > end:
            self._saved = None  # of tokens that are gone
        # A failed evaluation may have written to a recurrent state, at no position that shows it.
        trusted = self._intact or not self._context.recurrent
        if not ((trusted and self._context.trimmed_to(end)) or self._loaded(end)):
            self._rebuild()
        self._intact = True

    def _decode(self, tokens: Sequence[int], rows: int, outputs: int) -> None:
        padded = tokens if len(tokens) == rows else _padded(tokens, rows)
        self._intact = False
        self._logits = self._context.decode(padded, self._position, outputs)
        self._intact = True
        if self._observer is not None:
            self._observer.observe(tokens, self._position)

    def _commit(self, piece: Piece) -> None:
        self._history.append(piece)
        self._position += len(piece[0])

    def _loaded(self, end: int) -> bool:
        """Whether the memory holds `end` cells by going back to a state saved there."""
        if self._saved is None or self._saved[0] != end:
            return False
        return self._context.load(self._saved[1], end)

    def _rebuild(self) -> None:
        pieces, self._history, self._position = self._history, [], 0
        self._context.clear()
        for piece in pieces:
            tokens, rows, outputs = piece
            self._decode(tokens, rows, outputs)
            if not self._context.trimmed_to(self._position + len(tokens)):
                raise EngineError(
                    "decode", f"the engine lost the {len(tokens)} tokens it evaluated again"
                )
            self._commit(piece)


def _padded(tokens: Sequence[int], rows: int) -> Sequence[int]:
    return (*tokens, *[tokens[-1]] * (rows - len(tokens)))
