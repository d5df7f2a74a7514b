"""Models loaded and contexts made once a process; requests run one after another."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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
    Vocabulary,
)
from power.backends.llamacpp.context import Context, ContextConfig
from power.backends.llamacpp.drafters import DRAFTERS
from power.backends.llamacpp.drafting import Drafting, Host, MakeDrafting, rounded
from power.backends.llamacpp.identity import read_identity
from power.backends.llamacpp.library import disable_cuda_graphs, native
from power.backends.llamacpp.model import Model
from power.backends.llamacpp.sampler import ChainSampler, GreedySampler, make_sampler
from power.backends.llamacpp.target import LlamaTarget
from power.backends.llamacpp.vocabulary import LlamaVocabulary
from power.backends.none import NoProposer
from power.diagnostics import fail


@dataclass(slots=True)
class LlamaSession:
    """One request: `power.backends.interface.Session`."""

    target: LlamaTarget
    proposer: Proposer
    sampler: Sampler


class LlamaEngine:
    """`power.backends.interface.Engine` for llama.cpp; made by `open_engine`."""

    def __init__(
        self,
        config: EngineConfig,
        identity: EngineIdentity,
        target: tuple[Model, Context],
        draft: MakeDrafting,
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

    def tokenize(
        self, text: str, *, special: bool, plain: Sequence[tuple[int, int]] = ()
    ) -> list[int]:
        """Token ids of `text`, with BOS where the vocabulary says so."""
        return self._tokens.tokenize(text, special=special, plain=plain)

    def session(
        self, sampling: SamplingConfig, *, control: bool, rows: int | None = None
    ) -> Session:
        """Clean memory and fresh samplers; ends the session before it."""
        self._end_session()
        self._context.clear()
        drafting = Drafting(NoProposer()) if control else self._draft()
        target = LlamaTarget(
            self._context,
            self._model.vocabulary_size,
            rows=(self._config.rows if rows is None else rows) or None,
            chunk=self._config.prefill_batch,
            observer=drafting.observer,
        )
        on_device = self._config.backend_sampling and sampling.greedy
        self._context.choose_on_device(on_device)
        self._sampler = make_sampler(sampling, self._model, target, on_device=on_device)
        return LlamaSession(target, drafting.proposer, self._sampler)

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
    drafter = DRAFTERS[config.strategy]
    used = drafter.uses_draft(config.fr_rule)
    if bool(config.draft) != used:
        fail(
            "P529",
            f"the strategy `{config.strategy}` was opened "
            f"{'without its draft' if used else 'with a draft that it does not use'}",
            hint="declare the manifest's `[draft]` for the strategies that use one, and compile "
            "the plan again",
        )
    lib = native()
    share = _Shares(config, progress)
    with ExitStack() as resources:
        target = _load(config, config.target, "target", share.of_target, resources)
        draft = None
        if drafter.external:
            draft = _load(config, config.draft, "draft", share.of_draft, resources)
        context = _closing(resources, _target_context(config, target))
        host = Host(config, target, context, draft, own=lambda c: _closing(resources, c))
        make_drafting = drafter.open(host)
        progress(1.0)
        return LlamaEngine(
            config,
            read_identity(lib, facts),
            (target, context),
            make_drafting,
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
        repack=config.repack,
        load_mtp=what == "target" and DRAFTERS[config.strategy].native,
        progress=progress,
    )
    resources.callback(model.close)
    return model


def _target_context(config: EngineConfig, target: Model) -> Context:
    """The target's context. Raises PowerError P525 where it can not drop enough rows."""
    snapshots = config.snapshots if target.recurrent else 0
    padding = (config.rows or 1) - 1
    if target.recurrent and padding > snapshots:
        fail(
            "P525",
            "the target is recurrent and can not drop the padding of its passes",
            expected=f"snapshots for {padding} rows",
            found=f"{snapshots} snapshots",
            hint="set `graph.shape` to `natural`, or raise `spec_mtp_recurrent_snapshots`",
        )
    context = Context(target, _target_shape(config, snapshots))
    if context.snapshots != snapshots:
        found = context.snapshots
        context.close()
        fail(
            "P525",
            "the engine keeps no snapshots of this target's recurrent state",
            expected=f"{snapshots} snapshots",
            found=f"{found} snapshots",
            hint="set `spec_mode` to `off` and `graph.shape` to `natural`",
        )
    return context


def _target_shape(config: EngineConfig, snapshots: int) -> ContextConfig:
    rows = config.rows or config.draft_max + 1
    # A pass near the end of the context still has all its rows; they are trimmed after it.
    cells = rounded(config.context + rows)
    return ContextConfig(
        cells=cells,
        batch=min(max(config.prefill_batch, config.batch, rows, snapshots + 2), cells),
        rows=rows,
        threads=config.threads,
        micro_batch=config.micro_batch,
        flash_attention=config.flash_attention,
        offload=config.gpu_layers != 0,
        snapshots=snapshots,
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
