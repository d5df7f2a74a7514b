"""The reference backend as an engine: what an entry point of `power.backends` names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import power
from power.backends.interface import (
    EngineConfig,
    EngineFacts,
    EngineIdentity,
    Proposer,
    SamplingConfig,
)
from power.backends.lookup import NgramContext, PromptLookup
from power.backends.none import NoProposer
from power.backends.pieces import Special, cut
from power.backends.scripted.draft import ModelDraft
from power.backends.scripted.faults import Faults, Step
from power.backends.scripted.grammar import Grammar
from power.backends.scripted.model import BEGIN, CONTROL, byte_model, byte_vocabulary
from power.backends.scripted.sampler import ScriptedSampler
from power.backends.scripted.target import ScriptedTarget, Trim

_PACKAGE = "power-scripted"
_LIBRARY = "none"  # there is no llama.cpp inside
_NO_HEAD = "the scripted model has no draft head"
_CAPABILITIES: Mapping[str, str | None] = {
    "off": None,
    "prompt-lookup": None,
    "ngram-context": None,
    "draft-model": None,
    "mtp": _NO_HEAD,
    "dflash": _NO_HEAD,
    "dflash2": _NO_HEAD,
    "dspark": _NO_HEAD,
    "eagle3": _NO_HEAD,
}
_NO_KERNELS = (
    "graph.backend_sampling",
    "graph.cuda_graphs",
    "graph.flash_attention",
    "graph.gpu_layers",
    "graph.main_gpu",
    "graph.micro_batch",
    "graph.repack",
    "host.cuda_high_priority",
)
_CONTROL_TEXT = re.compile("|".join(map(re.escape, CONTROL)))
_SPECIALS = tuple(map(Special, sorted(CONTROL, key=len, reverse=True)))


@dataclass(frozen=True)
class Options:
    """`EngineConfig.extra["scripted"]`; every other key there is a fault (`Faults`).

    seed: of the model. window: rows a trim can drop; None for a pure KV cache.
    trim, uneven, sway: see `ScriptedTarget`. proposer: a kind of `ModelDraft` in place of the
    strategy's own proposer.
    """

    faults: Faults
    seed: int = 0
    window: int | None = None
    trim: Trim = "honest"
    uneven: int = 0
    sway: float = 0.0
    proposer: str | None = None

    @classmethod
    def of(cls, config: EngineConfig) -> Options:
        """Read the options; ValueError for one that doesn't exist."""
        given = dict(config.extra.get("scripted", {}))
        known: dict[str, Any] = {
            name: given.pop(name) for name in cls.__dataclass_fields__ if name in given
        }
        return cls(**{**known, "faults": Faults.from_options(given)})


@dataclass(frozen=True)
class ScriptedSession:
    """One request."""

    target: ScriptedTarget
    proposer: Proposer
    sampler: ScriptedSampler


class ScriptedEngine:
    """A byte-level model of words, the same for every artifact.

    The draft of `draft-model` knows the target's last two tokens but not its
    whole prefix, so that it is right most of the time.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._options = Options.of(config)
        self._options.faults.trip(Step.LOAD)
        self._model = byte_model(self._options.seed)
        self._draft = self._model.without_noise()
        self.vocabulary = byte_vocabulary()
        self.identity = BACKEND.identify()

    def tokenize(
        self, text: str, *, special: bool, plain: Sequence[tuple[int, int]] = ()
    ) -> list[int]:
        """BOS, then one token a byte; control tokens where `special` allows them."""
        ids = [BEGIN]
        for piece in cut(text, plain, _SPECIALS):
            at = 0
            for match in _CONTROL_TEXT.finditer(piece.text) if special and piece.special else ():
                ids += piece.text[at : match.start()].encode()
                ids.append(CONTROL[match[0]])
                at = match.end()
            ids += piece.text[at:].encode()
        return ids

    def session(
        self, sampling: SamplingConfig, *, control: bool, rows: int | None = None
    ) -> ScriptedSession:
        """Clean memory and a fresh sampler; faults go on counting from request to request."""
        config, options = self._config, self._options
        target = ScriptedTarget(
            self._model,
            context=config.context,
            window=options.window,
            rows=(config.rows if rows is None else rows) or None,
            batch=config.batch if config.draft_max else None,
            trim=options.trim,
            uneven=options.uneven,
            sway=options.sway,
            faults=options.faults,
        )
        grammar = None
        if sampling.grammar is not None:
            grammar = Grammar(sampling.grammar, self.vocabulary)
        sampler = ScriptedSampler(target.row, sampling, grammar, options.faults)
        return ScriptedSession(target, NoProposer() if control else self._proposer(), sampler)

    def close(self) -> None:
        """Nothing to free."""

    def _proposer(self) -> Proposer:
        config, options = self._config, self._options
        width, faults = config.draft_max, options.faults
        if options.proposer is not None:
            return ModelDraft(self._model, width, options.proposer, faults)
        makers: dict[str, Callable[[], Proposer]] = {
            "off": NoProposer,
            "prompt-lookup": lambda: PromptLookup(width),
            "ngram-context": lambda: NgramContext(width),
            "draft-model": lambda: ModelDraft(self._draft, width, faults=faults),
        }
        return makers[config.strategy]()


class ScriptedBackend:
    """The reference backend; `open` takes real artifacts and reads none of them."""

    name = "scripted"

    def describe(self) -> EngineFacts:
        """Its own facts: it is part of Power and always installed."""
        return EngineFacts(_PACKAGE, power.__version__, _LIBRARY, _CAPABILITIES)

    def identify(self) -> EngineIdentity:
        """Itself: there is no native library."""
        return EngineIdentity(
            package=_PACKAGE,
            version=power.__version__,
            llama_cpp=_LIBRARY,
            libraries={},
            devices=["Python"],
            system_info="a pure function of the prefix",
            without_effect=dict.fromkeys(_NO_KERNELS, "the scripted model has no kernels"),
        )

    def open(self, config: EngineConfig, progress: Callable[[float], None]) -> ScriptedEngine:
        """An engine at once, unless a fault at `load` was asked for.

        Raises ValueError for a strategy or an option that it does not have.
        """
        reason = _CAPABILITIES.get(config.strategy, "unknown strategy")
        if reason is not None:
            raise ValueError(f"{config.strategy}: {reason}")
        engine = ScriptedEngine(config)
        progress(1.0)
        return engine


BACKEND = ScriptedBackend()
