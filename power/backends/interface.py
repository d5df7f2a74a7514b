"""The face of an engine package, found by the entry point group `power.backends`.

An entry point names a module-level `Backend`. `describe` must not load native code:
the process that calls it may hold a signing key. `identify` and `open` do, and are
only called in a child process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from power.speculation.protocols import Proposer, Sampler, Target, Vocabulary

__all__ = [
    "Backend",
    "Engine",
    "EngineConfig",
    "EngineFacts",
    "EngineIdentity",
    "Proposer",
    "Sampler",
    "SamplingConfig",
    "Session",
    "SessionTarget",
    "Target",
    "Vocabulary",
]


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What is known of an engine without loading it.

    capabilities: strategy -> None when this engine executes it, else the reason
        why it does not. `off` is always executable.
    grammar_fault: why this engine would not take the text of a grammar, as far as
        that is known without it; None for one that it may.
    """

    package: str  # e.g. "llama-cpp-python"
    version: str  # of the package, e.g. "0.3.36"
    llama_cpp: str  # version of the library inside, e.g. "0.5.0-dev"
    capabilities: Mapping[str, str | None]
    grammar_fault: Callable[[str], str | None] = lambda _text: None


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """What was really loaded, read in the worker after the library is mapped.

    lacks: strategy -> why the loaded library does not execute it; what is not in
        it is as `EngineFacts.capabilities` says.
    without_effect: setting of a plan's `[graph]` or `[host]`, as `graph.main_gpu` ->
        why it changes nothing on this engine.
    remarks: what else its user should know of this build, a line each.
    """

    package: str
    version: str
    llama_cpp: str
    libraries: Mapping[str, str]  # file name -> SHA-256 hex of each mapped native library
    devices: Sequence[str]
    system_info: str
    lacks: Mapping[str, str] = field(default_factory=dict)
    without_effect: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """Sampler settings of one request; a None filter is not applied."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    grammar: str | None = None
    seed: int = 0

    @property
    def greedy(self) -> bool:
        """Whether the token is the one of the highest logit, whatever came before."""
        unbiased = self.grammar is None and (self.repeat_penalty or 1.0) == 1.0
        return self.temperature <= 0 and unbiased


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The plan's settings that an engine needs, as plain JSON-able values.

    target and draft are open file descriptors, one a shard, in order, already
    verified. rows is the fixed row count of a pass, or None for the natural
    shape. micro_batch: most rows that a kernel sees at once, None for all of a pass.
    repack: whether the target's weights may take layouts of the CPU's own, None for
    the engine's own rule.
    """

    target: tuple[int, ...]
    draft: tuple[int, ...] = ()
    strategy: str = "off"
    draft_max: int = 0
    draft_p_min: float = 0.0
    snapshots: int = 0
    fr_vocab_size: int | None = None
    fr_rule: str = "full"
    context: int = 4096
    batch: int = 1
    rows: int | None = None
    prefill_batch: int = 512
    micro_batch: int | None = None
    flash_attention: bool = True
    repack: bool | None = None
    cuda_graphs: bool = True
    backend_sampling: bool = False
    gpu_layers: int | Literal["all"] = "all"
    main_gpu: int = 0
    threads: int = 1
    cuda_high_priority: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


class SessionTarget(Target, Protocol):
    """A target whose rows can be looked at, which the scheduler never does."""

    def row(self, index: int, /) -> object:
        """Logits after the anchor and `index` tokens of the last pass, one a token.

        What numpy makes an array of without a copy, or a sequence of numbers.
        Valid until the pass is committed, dropped or followed by another.
        """
        ...


class Session(Protocol):
    """One request on an open engine."""

    @property
    def target(self) -> SessionTarget:
        """The target, its memory clean."""
        ...

    @property
    def proposer(self) -> Proposer:
        """The strategy's own, or none in a control run."""
        ...

    @property
    def sampler(self) -> Sampler:
        """The target's sampler, which reads the target's last pass."""
        ...


class Engine(Protocol):
    """Models loaded and contexts made, once a process; requests run one after another."""

    identity: EngineIdentity
    vocabulary: Vocabulary

    def tokenize(
        self, text: str, *, special: bool, plain: Sequence[tuple[int, int]] = ()
    ) -> list[int]:
        """Token ids of `text`, with BOS where the vocabulary says so.

        special: control tokens written in the text (`<|im_start|>`) become
        tokens; without it they stay plain text. plain: places (start, end, in
        characters) that stay plain text even so.
        """
        ...

    def session(
        self, sampling: SamplingConfig, *, control: bool, rows: int | None = None
    ) -> Session:
        """Clean memory and fresh samplers. `control`: no proposer.

        rows: of every pass of this request; 0 for the natural shape, None for
        the shape that the engine was opened with.
        """
        ...

    def close(self) -> None:
        """Free native memory, draft first."""
        ...


class Backend(Protocol):
    """An engine package."""

    name: str

    def describe(self) -> EngineFacts:
        """Versions and capabilities, from package metadata alone.

        Raises PowerError (P5xx) when the engine is not installed or its
        version is not one this adapter knows.
        """
        ...

    def identify(self) -> EngineIdentity:
        """Load the native library, without a model, and say what it is. Child process only."""
        ...

    def open(self, config: EngineConfig, progress: Callable[[float], None]) -> Engine:
        """Load the models. Worker process only. progress: 0.0 to 1.0."""
        ...
