"""A target session over a scripted model: strict about every rule that engines break."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast

from power.backends.scripted.faults import Faults, Step
from power.backends.scripted.model import ScriptedModel, State

_STEPS = 13

Trim = Literal["honest", "refuse", "lie"]


class ScriptedTarget:
    """Memory of one request.

    context: cells; a pass that needs more raises.
    window: rows that a trim can drop, padding included; None for a pure KV cache,
        which drops any number.
    rows: fixed row count of a pass, or None for anchor + proposal.
    batch: rows a pass has room for; None for no limit. With a window it must be
        at least window + 2: the anchor, the rollback tail and one staging row.
    uneven: rows below which a pass computes its logits otherwise, as kernels that are
        chosen by the number of rows do; by up to `sway`.
    trim: "refuse" reports every trim that has rows to drop as failed; "lie"
        reports success but stays in the state behind the last row, as a
        recurrent engine does when asked for more than its last pass.
    """

    def __init__(  # noqa: PLR0913 - the properties of one engine
        self,
        model: ScriptedModel,
        *,
        context: int,
        window: int | None = None,
        rows: int | None = None,
        batch: int | None = None,
        trim: Trim = "honest",
        uneven: int = 0,
        sway: float = 0.0,
        faults: Faults | None = None,
    ) -> None:
        if batch is not None and batch < (0 if window is None else window) + 2:
            raise ValueError(f"a batch of {batch} rows has no room for a window of {window}")
        self._model = model
        self._context = context
        self._window = window
        self._rows = rows
        self._batch = batch
        self._trim = trim
        self._uneven = uneven
        self._sway = sway
        self._faults = faults or Faults()
        self._states = [model.root()]  # by position: the state of each committed prefix
        self._pass: list[State] | None = None  # rows of the last pass, not yet committed
        self._padding = 0

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids."""
        return self._model.size

    @property
    def position(self) -> int:
        """Committed tokens."""
        return len(self._states) - 1

    @property
    def state(self) -> State:
        """The state of the committed prefix."""
        return self._states[-1]

    def row(self, row: int) -> Sequence[float]:
        """Logits of row `row` of the pass that is open."""
        if self._pass is None:
            raise RuntimeError("no pass to read a row of")
        state = self._pass[row]
        logits = self._model.logits(state)
        if len(self._pass) + self._padding >= self._uneven:
            return logits
        return [x + self._sway * _wobble(token, state) for token, x in enumerate(logits)]

    def prefill(self, tokens: Sequence[int], taken: Callable[[int], None] = lambda _: None) -> None:
        """Evaluate and commit `tokens`, in one chunk."""
        self._faults.trip(Step.PREFILL)
        if self.position:
            raise RuntimeError("prefill on memory that is not clean")
        self._extend(tokens)
        taken(len(tokens))

    def checkpoint(self) -> object:
        """The position: committed states are only ever appended to or cut."""
        self._faults.trip(Step.CHECKPOINT)
        return self.position

    def evaluate(self, tokens: Sequence[int]) -> None:
        """One pass; raises when the last one was neither committed nor rolled back."""
        self._faults.trip(Step.PASS)
        if self._pass is not None:
            raise RuntimeError("a pass on top of rows that were neither committed nor dropped")
        self._check_room(tokens)
        self._padding = 0 if self._rows is None else self._rows - len(tokens)
        state, states = self.state, []
        for token in tokens:
            state = self._model.step(state, token)
            states.append(state)
        self._pass = states

    def commit(self, keep: int) -> bool:
        """Keep `keep` rows; False when the rest cannot be dropped."""
        self._faults.trip(Step.COMMIT)
        states = self._pass
        if states is None or not 1 <= keep <= len(states):
            raise RuntimeError(f"cannot keep {keep} rows of the last pass")
        dropped = len(states) - keep + self._padding
        refused = self._trim == "refuse" and dropped > 0
        if refused or (self._window is not None and dropped > self._window):
            return False
        self._states += states[:keep]
        if self._trim == "lie":
            self._states[-1] = states[-1]
        self._pass = None
        return True

    def replay(self, checkpoint: object, tokens: Sequence[int]) -> None:
        """Back to `checkpoint`, then `tokens` in passes of their own."""
        self._faults.trip(Step.REPLAY)
        self._cut(checkpoint)
        self._extend(tokens)

    def restore(self, checkpoint: object) -> None:
        """Back to `checkpoint`."""
        self._faults.trip(Step.RESTORE)
        self._cut(checkpoint)

    def _extend(self, tokens: Sequence[int]) -> None:
        if self.position + len(tokens) > self._context:
            raise RuntimeError("the context is full")
        for token in tokens:
            self._states.append(self._model.step(self._states[-1], token))

    def _cut(self, checkpoint: object) -> None:
        position = cast(int, checkpoint)
        if position > self.position:
            raise RuntimeError("a checkpoint ahead of the memory")
        del self._states[position + 1 :]
        self._pass = None

    def _check_room(self, tokens: Sequence[int]) -> None:
        rows = len(tokens) if self._rows is None else self._rows
        if not tokens or len(tokens) > rows:
            raise RuntimeError(f"{len(tokens)} tokens do not fit a pass of {rows} rows")
        if self._batch is not None and rows > self._batch:
            raise RuntimeError(f"a pass of {rows} rows in a batch of {self._batch}")
        if self.position + len(tokens) > self._context:
            raise RuntimeError("the context is full")
        if not all(0 <= token < self._model.size for token in tokens):
            raise RuntimeError("a token that is not in the vocabulary")


def _wobble(token: int, state: State) -> float:
    """From 0 to 1, another for each token and length of the prefix."""
    return (token * 7919 + state.length * 31) % _STEPS / (_STEPS - 1)
