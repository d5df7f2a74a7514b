"""Sound pairs to start from: a target alone, or with a draft of each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.artifact import build
from tests.artifact.build import Gguf


@dataclass(frozen=True)
class Seed:
    """`kind` is the strategy; without `draft` the target is driven alone."""

    kind: str
    target: Callable[[], Gguf]
    draft: Callable[[], Gguf] | None = None


def _smaller() -> Gguf:
    return build.llama(1)


def _qwen2() -> Gguf:
    return build.qwen(2)


def _byte_pairs() -> Gguf:
    """A byte-level vocabulary, whose texts spell a space as `Ġ`."""
    gguf = build.llama(1).put("tokenizer.ggml.model", build.STRING, "gpt2")
    return gguf.put_array("tokenizer.ggml.merges", build.STRING, ["w o", "wo r", "Ġ w"])


def _rwkv() -> Gguf:
    """A vocabulary in which every byte that begins a text is one itself."""
    tokens = [*build.TOKENS]
    tokens[-2:] = ["<", "w"]
    gguf = build.llama(1).put("tokenizer.ggml.model", build.STRING, "rwkv")
    return gguf.put_array("tokenizer.ggml.tokens", build.STRING, tokens)


def _other(model: str) -> Callable[[], Gguf]:
    return lambda: build.llama(1).put("tokenizer.ggml.model", build.STRING, model)


def _reduced() -> Gguf:
    return build.reduced(build.dflash(), [0, 5, 9])


SEEDS = {
    "llama": Seed("off", build.llama),
    "qwen2": Seed("off", _qwen2),
    "qwen3": Seed("off", build.qwen),
    "gemma3": Seed("off", build.gemma3),
    "gpt2": Seed("off", _byte_pairs),
    "t5": Seed("off", _other("t5")),
    "rwkv": Seed("off", _rwkv),
    "qwen35": Seed("off", build.qwen35),
    "mtp": Seed("mtp", build.qwen35),
    "draft-model": Seed("draft-model", build.llama, _smaller),
    "eagle3": Seed("eagle3", build.llama, build.eagle3),
    "dflash": Seed("dflash", build.llama, build.dflash),
    "dflash-reduced": Seed("dflash", build.llama, _reduced),
    "dflash2": Seed("dflash2", build.llama, build.dflash2),
    "dspark": Seed("dspark", build.llama, build.dspark),
}
