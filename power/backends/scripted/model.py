"""Logits by hashing: the same prefix gives the same row, on any machine and in any order."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

_SPREAD = 8.0  # logits of one hash lie in [0, 8)
_FORCED = 1000.0


class State(NamedTuple):
    """All that a model remembers of a prefix; equal states mean equal prefixes."""

    digest: bytes
    recent: tuple[int, ...]
    length: int


class Vocabulary:
    """Tokens as bytes, and which of them end generation."""

    def __init__(self, pieces: Sequence[bytes], ends: frozenset[int]) -> None:
        self._pieces = tuple(pieces)
        self._ends = ends
        self.size = len(self._pieces)

    def piece(self, token: int) -> bytes:
        """The bytes of `token`; empty for a control token."""
        return self._pieces[token]

    def is_end(self, token: int) -> bool:
        """Whether `token` ends generation."""
        return token in self._ends


class ScriptedModel:
    """A pure function from a prefix to a row of logits.

    order: tokens at the end of the prefix that decide most of the row, so that
        text repeats itself and a draft can learn it; 0 for none.
    noise: weight of a hash of the whole prefix; with 0 only `order` tokens count.
    bias: added to each row, one value a token.
    forced: prefix length -> token that no other can beat there.
    """

    def __init__(  # noqa: PLR0913 - the knobs of one model
        self,
        size: int,
        *,
        seed: int = 0,
        order: int = 0,
        noise: float = 1.0,
        bias: Sequence[float] | None = None,
        forced: Mapping[int, int] | None = None,
    ) -> None:
        self.size = size
        self.seed = seed
        self.order = order
        self.noise = noise
        self.bias = tuple(bias) if bias is not None else (0.0,) * size
        self.forced = dict(forced or {})
        self._unpack = struct.Struct(f"<{size}H").unpack
        self.logits = lru_cache(maxsize=1024)(self._logits)

    def root(self) -> State:
        """The state of the empty prefix."""
        return State(b"", (), 0)

    def step(self, state: State, token: int) -> State:
        """The state after one more token."""
        digest = hashlib.blake2b(
            state.digest + token.to_bytes(4, "little"), digest_size=16
        ).digest()
        recent = (*state.recent, token)[-self.order :] if self.order else ()
        return State(digest, recent, state.length + 1)

    def read(self, tokens: Sequence[int], state: State | None = None) -> State:
        """The state after `tokens`, from `state` or the empty prefix."""
        state = self.root() if state is None else state
        for token in tokens:
            state = self.step(state, token)
        return state

    def best(self, state: State) -> int:
        """The greedy token: the highest logit, the lowest id among equals."""
        row = self.logits(state)
        return row.index(max(row))

    def without_noise(self) -> ScriptedModel:
        """A draft of this model: it knows the last `order` tokens and nothing else."""
        return ScriptedModel(self.size, seed=self.seed, order=self.order, noise=0.0, bias=self.bias)

    def _logits(self, state: State) -> tuple[float, ...]:
        near = self._hash("near", struct.pack(f"<{len(state.recent)}I", *state.recent))
        far = self._hash("far", state.digest)
        local = _SPREAD / 65536 if self.order else 0.0
        whole = self.noise * _SPREAD / 65536
        row = [b + n * local + f * whole for b, n, f in zip(self.bias, near, far, strict=True)]
        if state.length in self.forced:
            row[self.forced[state.length]] += _FORCED
        return tuple(row)

    def _hash(self, purpose: str, data: bytes) -> tuple[int, ...]:
        key = f"power-scripted {purpose} {self.seed} ".encode() + data
        return self._unpack(hashlib.shake_128(key).digest(2 * self.size))


END, TURN_END, BEGIN, TURN_BEGIN = range(256, 260)
CONTROL: Mapping[str, int] = {
    "</s>": END,
    "<|im_end|>": TURN_END,
    "<s>": BEGIN,
    "<|im_start|>": TURN_BEGIN,
}
"""Control tokens of the byte vocabulary as they are written in a chat template."""


def byte_vocabulary() -> Vocabulary:
    """Every byte is a token (its id), then two ends of generation and two control tokens."""
    return Vocabulary(
        [bytes([byte]) for byte in range(256)] + [b""] * len(CONTROL), frozenset({END, TURN_END})
    )


def byte_model(seed: int) -> ScriptedModel:
    """A model of lower-case words that ends by itself after some hundred tokens."""
    bias = [-20.0] * (256 + len(CONTROL))
    for byte in b"abcdefghijklmnopqrstuvwxyz":
        bias[byte] = 6.0
    bias[ord(" ")] = 9.0
    bias[ord("\n")] = 5.0
    bias[END] = 4.0
    return ScriptedModel(len(bias), seed=seed, order=2, noise=0.1, bias=bias)
