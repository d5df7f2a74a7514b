"""The target's own sampler: an argmax in place, or the engine's sampler chain."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from power.backends.errors import EngineError
from power.backends.interface import SamplingConfig
from power.backends.llamacpp.context import Row
from power.backends.llamacpp.grammar import grammar_sampler
from power.backends.llamacpp.library import native
from power.backends.llamacpp.model import Model
from power.backends.llamacpp.target import LlamaTarget
from power.diagnostics import fail

_DEFAULT_LAST_N = 64  # llama.cpp's own default window
_RANDOM_SEED = 0xFFFF_FFFF  # LLAMA_DEFAULT_SEED: "take any"
_MIN_KEEP = 1
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


def make_sampler(
    config: SamplingConfig, model: Model, target: LlamaTarget, *, on_device: bool
) -> GreedySampler | ChainSampler:
    """The cheapest sampler that does what `config` says.

    on_device: the target's device has chosen already (`Context.choose_on_device`).
    Raises PowerError P526 for a grammar that does not parse and P527 for a
    seed outside 0 to 2**32 - 2.
    """
    if not config.greedy:
        return ChainSampler(config, model, target)
    return DeviceSampler(target) if on_device else GreedySampler(target)


def greedy(row: Row) -> int:
    """The first token of the highest logit of one row, float32 [vocabulary].

    Raises EngineError `logits` for a NaN, an infinity or a row of nothing but
    minus infinity: numpy's argmax stops at the first NaN, so looking at the
    maximum alone is enough.
    """
    token = int(row.argmax())
    if not math.isfinite(row[token]):
        raise EngineError("logits", f"the logit of token {token} is {row[token]}")
    return token


class GreedySampler:
    """Temperature 0 without grammar or penalty: no state, no copy of the row."""

    def __init__(self, target: LlamaTarget) -> None:
        self._target = target

    def checkpoint(self) -> None:
        """There is no state."""

    def sample(self, row: int) -> int:
        """The token of the highest logit of row `row`."""
        return greedy(self._target.row(row))

    def restore(self, checkpoint: object) -> None:
        """There is no state."""

    def close(self) -> None:
        """There is nothing to free."""


class DeviceSampler(GreedySampler):
    """Reads what the target's device has chosen.

    Of equal logits it may be another one than the first, and a number that is
    none is only seen where it is chosen.
    """

    def sample(self, row: int) -> int:
        """The token that the device chose for row `row`."""
        token = self._target.chosen(row)
        logit = self._target.row(row)[token]
        if token < 0 or not math.isfinite(logit):
            raise EngineError("logits", f"the device chose token {token} of logit {logit}")
        return token


class ChainSampler:
    """llama.cpp's samplers: grammar, penalties, top-k, typical, top-p, min-p, temperature, draw.

    The penalty window holds emitted tokens only, not the prompt. At most two
    chains are alive: the current one and its last checkpoint.
    """

    def __init__(self, config: SamplingConfig, model: Model, target: LlamaTarget) -> None:
        self._target = target
        size = target.vocabulary_size
        self._ids = np.arange(size, dtype=np.int32)
        self._candidates = np.zeros(size, _CANDIDATE)
        self._chain: Any = _build_chain(config, model)
        self._saved: Any = None
        self._generation = 0

    def checkpoint(self) -> int:
        """Random state, penalty window and grammar state, in a copy of the chain."""
        lib = native()
        copy = lib.llama_sampler_clone(self._chain)
        if not copy:
            raise EngineError("memory", "the engine could not copy the sampler's state")
        if self._saved:
            lib.llama_sampler_free(self._saved)
        self._saved = copy
        self._generation += 1
        return self._generation

    def restore(self, checkpoint: object) -> None:
        """Return to the last checkpoint."""
        if not self._saved or checkpoint != self._generation:
            msg = f"not the last checkpoint of this sampler: {checkpoint!r}"
            raise ValueError(msg)
        lib = native()
        copy = lib.llama_sampler_clone(self._saved)
        if not copy:
            raise EngineError("memory", "the engine could not copy the sampler's state")
        lib.llama_sampler_free(self._chain)
        self._chain = copy

    def sample(self, row: int) -> int:
        """Apply the chain to row `row`, draw once, and accept the token.

        This is `llama_sampler_sample` with a look at the result before it is
        accepted: a grammar that admits no token would take the process down.
        """
        lib = native()
        logits = self._target.row(row)
        greedy(logits)  # refuses a row that is not finite
        candidates = self._candidates
        candidates["id"] = self._ids
        candidates["logit"] = logits
        candidates["p"] = 0.0
        array = lib.llama_token_data_array(
            data=candidates.ctypes.data_as(lib.llama_token_data_p),
            size=len(candidates),
            selected=-1,
            sorted=False,
        )
        lib.llama_sampler_apply(self._chain, ctypes.byref(array))
        chosen = array.data[array.selected] if 0 <= array.selected < array.size else None
        if chosen is None or not math.isfinite(chosen.logit):
            raise EngineError("grammar", "no token can follow in the grammar")
        token = int(chosen.id)
        lib.llama_sampler_accept(self._chain, token)
        return token

    def close(self) -> None:
        """Free the chains; safe to call again."""
        lib = native()
        for chain in (self._chain, self._saved):
            if chain:
                lib.llama_sampler_free(chain)
        self._chain = self._saved = None


def _build_chain(config: SamplingConfig, model: Model) -> Any:
    lib = native()
    params = lib.llama_sampler_chain_default_params()
    params.no_perf = True
    chain = lib.llama_sampler_chain_init(params)
    try:
        for link in _links(lib, config, model):
            lib.llama_sampler_chain_add(chain, link)  # owns the link from here on
    except BaseException:
        lib.llama_sampler_free(chain)
        raise
    return chain


def _links(lib: Any, config: SamplingConfig, model: Model) -> Iterator[Any]:
    if config.grammar is not None:
        yield grammar_sampler(config.grammar, model)
    if config.repeat_penalty is not None and config.repeat_penalty != 1.0:
        last = _DEFAULT_LAST_N if config.repeat_last_n is None else config.repeat_last_n
        yield lib.llama_sampler_init_penalties(
            model.vocabulary_size, last, config.repeat_penalty, 0.0, 0.0
        )
    if config.temperature <= 0:
        yield lib.llama_sampler_init_greedy()
        return
    if config.top_k is not None:
        yield lib.llama_sampler_init_top_k(config.top_k)
    if config.typical_p is not None:
        yield lib.llama_sampler_init_typical(config.typical_p, _MIN_KEEP)
    if config.top_p is not None:
        yield lib.llama_sampler_init_top_p(config.top_p, _MIN_KEEP)
    if config.min_p is not None:
        yield lib.llama_sampler_init_min_p(config.min_p, _MIN_KEEP)
    yield lib.llama_sampler_init_temp(config.temperature)
    yield lib.llama_sampler_init_dist(_seed(config.seed))


def _seed(seed: int) -> int:
    if not 0 <= seed < _RANDOM_SEED:
        fail(
            "P527",
            f"the engine can not use the seed {seed}",
            expected=f"0 to {_RANDOM_SEED - 1}",
            found=seed,
            hint="choose another `sampling.seed`",
        )
    return seed
