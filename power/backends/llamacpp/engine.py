"""Models loaded and contexts made once a process; requests run one after another."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from power.backends.interface import (
    EngineConfig,
    EngineFacts,
    EngineIdentity,
    Proposer,
    Sampler,
    SamplingConfig,
    Session,
    Target,
    Vocabulary,
)
from power.backends.llamacpp.context import Context, ContextConfig, default_threads
from power.backends.llamacpp.identity import read_identity
from power.backends.llamacpp.library import disable_cuda_graphs, native
from power.backends.llamacpp.model import Model
from power.backends.llamacpp.proposers import make_proposer
from power.backends.llamacpp.sampler import ChainSampler, GreedySampler, make_sampler
from power.backends.llamacpp.target import LlamaTarget
from power.backends.llamacpp.vocabulary import LlamaVocabulary
from power.diagnostics import fail

_CELL_STEP = 256  # the library rounds a context up to it by itself


@dataclass(slots=True)
class LlamaSession:
    """One request: `power.backends.interface.Session`."""

    target: Target
    proposer: Proposer
    sampler: Sampler


class LlamaEngine:
    """`power.backends.interface.Engine` for llama.cpp; made by `open_engine`."""

    def __init__(
        self,
        config: EngineConfig,
        identity: EngineIdentity,
        target: tuple[Model, Context],
        draft: Context | None,
        resources: ExitStack,
    ) -> None:
        self.identity = identity
        self._config = config
        self._model, self._context = target
        self._draft = draft
        self._resources = resources
        self._tokens = LlamaVocabulary(self._model)
        self.vocabulary: Vocabulary = self._tokens
        self._sampler: GreedySampler | ChainSampler | None = None

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of `text`, with BOS where the vocabulary says so."""
        return self._tokens.tokenize(text, special=special)

    def session(self, sampling: SamplingConfig, *, control: bool) -> Session:
        """Clean memory and fresh samplers; ends the session before it."""
        self._end_session()
        self._context.clear()
        target = LlamaTarget(self._context, self._model.vocabulary_size, rows=self._config.rows)
        strategy = "off" if control else self._config.strategy
        proposer = make_proposer(strategy, self._config, self._draft)
        self._sampler = make_sampler(sampling, self._model, target)
        return LlamaSession(target, proposer, self._sampler)

    def close(self) -> None:
        """Free samplers, then contexts, then models, the draft's first; safe to call again."""
        self._end_session()
        self._resources.close()

    def _end_session(self) -> None:
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.close()


def open_engine(
    config: EngineConfig, facts: EngineFacts, progress: Callable[[float], None]
) -> LlamaEngine:
    """Load target and draft and make their contexts; frees everything when one fails."""
    if not config.cuda_graphs:
        disable_cuda_graphs()
    lib = native()
    share = _Shares(config, progress)
    with ExitStack() as resources:
        target = _load(config, config.target, "target", share.of_target, resources)
        _check_recurrent(config, target)
        draft = None
        if config.draft:
            draft = _load(config, config.draft, "draft", share.of_draft, resources)
            _check_vocabularies(target, draft)
        target_context = _closing(resources, Context(target, _target_shape(config)))
        draft_context = None
        if draft is not None:
            draft_context = _closing(resources, Context(draft, _draft_shape(config)))
        progress(1.0)
        return LlamaEngine(
            config,
            read_identity(lib, facts),
            (target, target_context),
            draft_context,
            resources.pop_all(),
        )


def _closing(resources: ExitStack, context: Context) -> Context:
    resources.callback(context.close)
    return context


def _load(
    config: EngineConfig,
    fds: tuple[int, ...],
    what: str,
    progress: Callable[[float], None],
    resources: ExitStack,
) -> Model:
    model = Model(
        fds,
        what=what,
        gpu_layers=config.gpu_layers,
        main_gpu=config.main_gpu,
        progress=progress,
    )
    resources.callback(model.close)
    return model


def _target_shape(config: EngineConfig) -> ContextConfig:
    rows = config.rows or config.draft_max + 1
    # A pass near the end of the context still has all its rows; they are trimmed after it.
    cells = _rounded(config.context + rows)
    return ContextConfig(
        cells=cells,
        batch=min(max(config.prefill_batch, rows), cells),
        rows=rows,
        threads=config.threads or default_threads(),
        flash_attention=config.flash_attention,
        offload=config.gpu_layers != 0,
    )


def _draft_shape(config: EngineConfig) -> ContextConfig:
    cells = _rounded(config.context + config.draft_max + 1)
    return ContextConfig(
        cells=cells,
        batch=min(config.prefill_batch, cells),
        rows=1,
        threads=config.threads or default_threads(),
        flash_attention=config.flash_attention,
        offload=config.gpu_layers != 0,
    )


def _rounded(cells: int) -> int:
    return -(-cells // _CELL_STEP) * _CELL_STEP


def _check_recurrent(config: EngineConfig, target: Model) -> None:
    """A recurrent state has no suffix to trim: only one-row passes need none."""
    if target.recurrent and (config.strategy != "off" or (config.rows or 1) > 1):
        fail(
            "P525",
            "the target is recurrent, and this adapter can not drop rejected rows of its state",
            expected="spec_mode `off` with shape `natural`",
            found=f"spec_mode `{config.strategy}` with {config.rows or 'natural'} rows",
            hint="set `spec_mode` to `off` and `graph.shape` to `natural`",
        )


def _check_vocabularies(target: Model, draft: Model) -> None:
    if target.vocabulary_size != draft.vocabulary_size:
        fail(
            "P528",
            "the draft has another vocabulary than the target",
            expected=f"{target.vocabulary_size} tokens",
            found=f"{draft.vocabulary_size} tokens",
            hint="choose a draft made for this target",
        )


class _Shares:
    """One progress over both models, each by its share of the bytes."""

    def __init__(self, config: EngineConfig, report: Callable[[float], None]) -> None:
        target = sum(os.fstat(fd).st_size for fd in config.target)
        draft = sum(os.fstat(fd).st_size for fd in config.draft)
        self._target = target / ((target + draft) or 1)
        self._report = report

    def of_target(self, fraction: float) -> None:
        self._report(fraction * self._target)

    def of_draft(self, fraction: float) -> None:
        self._report(self._target + fraction * (1.0 - self._target))
