"""Proposers over a scripted model: a draft that is as right or as wrong as one asks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import cast

from power.backends.scripted.faults import Faults, Step
from power.backends.scripted.model import ScriptedModel, State

_Distort = Callable[[int, int, State], int]  # (greedy token, index, state) -> proposed token

KINDS = ("oracle", "anti-oracle", "random", "wrong-at-N", "empty", "too-long", "out-of-vocabulary")
"""What `ModelDraft` can be asked for; N is an index from 0."""


class ModelDraft:
    """Proposes a model's own greedy continuation, distorted by `kind`.

    oracle: as it is, so that a greedy target with the same model accepts all.
    anti-oracle: always the next id instead. random: tokens by a hash. wrong-at-N:
    only proposal N is wrong. empty: nothing. too-long: more than asked for.
    out-of-vocabulary: ids that don't exist, in the second half of the proposal.
    Raises RuntimeError when the scheduler says it accepted what was not proposed.
    """

    def __init__(
        self,
        model: ScriptedModel,
        max_width: int,
        kind: str = "oracle",
        faults: Faults | None = None,
    ) -> None:
        self._model = model
        self._width = max_width
        self._kind = kind
        self._distort = _distortion(kind, model.size)
        self._faults = faults or Faults()
        self._state = model.root()
        self._evaluated = 0
        self._proposed: tuple[int, ...] = ()

    @property
    def max_width(self) -> int:
        """The K it was made with."""
        return self._width

    def begin(self, prompt: Sequence[int]) -> None:
        """Read the whole prompt."""
        self._faults.trip(Step.BEGIN)
        self._state, self._evaluated = self._model.read(prompt), 0

    def checkpoint(self) -> object:
        """The model's state: it is immutable."""
        return self._state

    def backlog(self) -> int:
        """Tokens before the anchor that no proposal has needed yet."""
        return max(0, self._state.length - 1 - self._evaluated)

    def propose(self, limit: int) -> Sequence[int]:
        """`limit` tokens, none or too many, as `kind` says."""
        self._faults.trip(Step.PROPOSE)
        self._evaluated = self._state.length
        count = {"empty": 0, "too-long": 2 * limit + 1}.get(self._kind, limit)
        state, proposed = self._state, []
        for index in range(count):
            token = self._model.best(state)
            if self._kind == "out-of-vocabulary" and index >= limit // 2:
                proposed.append(self._model.size if index % 2 else -1)
                continue
            proposed.append(self._distort(token, index, state))
            state = self._model.step(state, proposed[-1])
        self._proposed = tuple(proposed)
        return proposed

    def commit(self, emitted: Sequence[int], accepted: int) -> None:
        """Read what was emitted."""
        self._faults.trip(Step.FOLLOW)
        if tuple(emitted[:accepted]) != self._proposed[:accepted]:
            raise RuntimeError("accepted tokens that were not proposed")
        self._state = self._model.read(emitted, self._state)
        # The last proposed token is never evaluated.
        self._evaluated += min(accepted, max(0, len(self._proposed) - 1))
        self._proposed = ()

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`."""
        self._state = cast(State, checkpoint)
        self._evaluated = min(self._evaluated, self._state.length)
        self._proposed = ()


def _distortion(kind: str, size: int) -> _Distort:
    wrong = re.fullmatch(r"wrong-at-(\d{1,3})", kind)
    if wrong is not None:
        at = int(wrong[1])
        return lambda token, index, _: (token + (index == at)) % size
    if kind == "anti-oracle":
        return lambda token, _index, _state: (token + 1) % size
    if kind == "random":
        return lambda _token, index, state: _hashed(state, index) % size
    if kind in KINDS:
        return lambda token, _index, _state: token
    raise ValueError(f"unknown proposer {kind!r}: one of {', '.join(KINDS)}")


def _hashed(state: State, index: int) -> int:
    digest = hashlib.blake2b(state.digest + bytes([index % 256]), digest_size=4).digest()
    return int.from_bytes(digest, "little")
