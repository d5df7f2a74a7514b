"""The target's sampler, written out: every filter in the engine's order, every draw counted.

Grammar, repeat penalty, then greedy, or top-k, typical, top-p, min-p,
temperature and one random draw: the chain of llama.cpp's `common/sampling.cpp`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, cast

from power.backends.interface import SamplingConfig
from power.backends.scripted.faults import Faults, Step
from power.backends.scripted.grammar import Grammar, GrammarState

PENALTY_WINDOW = 64
"""Tokens that a repeat penalty looks back on when the plan doesn't say."""

Candidates = list[tuple[float, int]]  # (logit, token), best first


class SamplerState(NamedTuple):
    """Everything that sampling one token changes."""

    draws: int  # random numbers used
    window: tuple[int, ...]  # the last emitted tokens, for the repeat penalty
    grammar: GrammarState | None


class ScriptedSampler:
    """Samples rows that `row` gives, advancing `state` once a token.

    row: logits by row index of the target's open pass.
    """

    def __init__(
        self,
        row: Callable[[int], Sequence[float]],
        config: SamplingConfig,
        grammar: Grammar | None = None,
        faults: Faults | None = None,
    ) -> None:
        self._row = row
        self._config = config
        self._grammar = grammar
        self._faults = faults or Faults()
        last_n = PENALTY_WINDOW if config.repeat_last_n is None else config.repeat_last_n
        self._last_n = last_n if config.repeat_penalty is not None else 0
        self.state = SamplerState(0, (), None if grammar is None else grammar.start)

    def checkpoint(self) -> object:
        """The state: it is immutable."""
        return self.state

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`."""
        self.state = cast(SamplerState, checkpoint)

    def sample(self, row: int) -> int:
        """Choose from row `row` and take in the choice."""
        self._faults.trip(Step.SAMPLE)
        draws, window, grammar = self.state
        logits = list(self._row(row))
        if self._grammar is not None and grammar is not None:
            allowed = self._grammar.allowed(grammar)
            logits = [x if ok else -math.inf for x, ok in zip(logits, allowed, strict=True)]
        self._penalise(logits, window)
        if self._config.temperature <= 0:
            token = logits.index(max(logits))
        else:
            token = self._draw(logits, draws)
            draws += 1
        if self._last_n:
            window = (*window, token)[-self._last_n :]
        if self._grammar is not None and grammar is not None:
            grammar = self._grammar.accept(grammar, token)
        self.state = SamplerState(draws, window, grammar)
        return token

    def _penalise(self, logits: list[float], window: Sequence[int]) -> None:
        penalty = self._config.repeat_penalty
        if penalty is None:
            return
        for token in set(window):
            logit = logits[token]
            logits[token] = logit / penalty if logit > 0 else logit * penalty

    def _draw(self, logits: Sequence[float], draws: int) -> int:
        config = self._config
        best: Candidates = sorted(
            ((x, token) for token, x in enumerate(logits) if x > -math.inf),
            key=lambda pair: (-pair[0], pair[1]),
        )
        if config.top_k is not None and config.top_k > 0:
            best = best[: config.top_k]
        if config.typical_p is not None:
            best = _typical(best, config.typical_p)
        if config.top_p is not None:
            best = best[: _covering(_softmax(best), config.top_p)]
        if config.min_p is not None:
            floor = best[0][0] + math.log(config.min_p) if config.min_p > 0 else -math.inf
            best = [pair for pair in best if pair[0] >= floor]
        weights = _softmax([(x / config.temperature, token) for x, token in best])
        mark = _uniform(config.seed, draws)
        for (_, token), reached in zip(best, accumulate(weights), strict=True):
            if mark < reached:
                return token
        return best[-1][1]


def _softmax(candidates: Candidates) -> list[float]:
    peak = max(x for x, _ in candidates)
    weights = [math.exp(x - peak) for x, _ in candidates]
    total = sum(weights)
    return [weight / total for weight in weights]


def _covering(weights: Sequence[float], mass: float) -> int:
    """How many of `weights`, in order, it takes to reach `mass`; at least one."""
    return next(
        (n for n, total in enumerate(accumulate(weights), 1) if total >= mass), len(weights)
    )


def _typical(candidates: Candidates, mass: float) -> Candidates:
    """Locally typical sampling (Meister et al., arXiv:2202.00666): nearest to the entropy."""
    weights = _softmax(candidates)
    surprise = [-math.log(weight) if weight > 0 else math.inf for weight in weights]
    entropy = sum(w * s for w, s in zip(weights, surprise, strict=True) if w > 0)
    order = sorted(range(len(weights)), key=lambda i: (abs(surprise[i] - entropy), i))
    kept = order[: _covering([weights[i] for i in order], mass)]
    return [candidates[i] for i in sorted(kept)]


def _uniform(seed: int, draw: int) -> float:
    """Number `draw` of the random sequence of `seed`, in [0, 1)."""
    digest = hashlib.blake2b(f"{seed} {draw}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
