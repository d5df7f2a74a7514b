"""Whole models that the engine dies on, found by tools/fuzz_gguf.py: each is refused by name.

`needed` holds what the engine's own process does with the file otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from power.diagnostics import as_text
from tests.artifact import build
from tests.artifact.build import I32, STRING, TOKENS, TYPES, U32, Gguf
from tests.fuzzing.drive import Engine
from tests.fuzzing.judge import refusal


@dataclass(frozen=True)
class Case:
    """A sound model, what is done to it, and what the refusal must say."""

    model: Callable[[], Gguf]
    change: Callable[[Gguf], object]
    code: str
    mention: str
    kind: str = "off"


def retyped(name: str, kind: str) -> Callable[[Gguf], object]:
    return lambda g: g.tensor(name, type=TYPES[kind])


def qwen2() -> Gguf:
    return build.qwen(2)


def renamed(old: str, new: str) -> Callable[[Gguf], object]:
    def change(gguf: Gguf) -> object:
        gguf.pairs = [(str(k).replace(f"{old}.", f"{new}.", 1), t, v) for k, t, v in gguf.pairs]
        return gguf.put("general.architecture", STRING, new)

    return change


def deci() -> Gguf:
    """A model of an architecture whose tensors only the engine knows."""
    gguf = build.llama()
    renamed("llama", "deci")(gguf)
    return gguf


def without_a_byte(gguf: Gguf) -> object:
    texts = ["other" if text == "<0xC3>" else text for text in TOKENS]
    return gguf.put_array("tokenizer.ggml.tokens", STRING, texts)


SECTIONS = "qwen35.rope.dimension_sections"
CASES = {
    "a vector of 8 bits": Case(
        build.llama, retyped("blk.0.attn_norm.weight", "Q8_0"), "P306", "stored as Q8_0"
    ),
    "a vector of 16 bits": Case(
        build.llama, retyped("output_norm.weight", "F16"), "P306", "output_norm.weight"
    ),
    "a matrix of 64 bits": Case(
        build.llama, retyped("blk.0.ffn_down.weight", "F64"), "P306", "stored as F64"
    ),
    "a bias of integers": Case(
        qwen2, retyped("blk.0.attn_k.bias", "I8"), "P306", "`blk.0.attn_k.bias` stores weights"
    ),
    "integers where only the engine knows the tensors": Case(
        deci, retyped("output_norm.weight", "I32"), "P306", "stores weights as integers"
    ),
    "frequencies of integers": Case(
        deci,
        lambda g: g.tensor("rope_freqs.weight", (4,), type=TYPES["I32"]),
        "P306",
        "`rope_freqs.weight` stores",
    ),
    "no token for a byte": Case(build.llama, without_a_byte, "P311", "byte 0xc3"),
    "half a head rotated": Case(
        qwen2, lambda g: g.put("qwen2.rope.dimension_count", U32, 4), "P304", "dimension_count"
    ),
    "sections that rotate nothing": Case(
        build.qwen35, lambda g: g.put_array(SECTIONS, I32, [0, 0, 0, 4]), "P304", SECTIONS
    ),
    "sections longer than a head": Case(
        build.qwen35, lambda g: g.put_array(SECTIONS, I32, [2, 1, 1, 64]), "P304", SECTIONS
    ),
    "an inner size of its own": Case(
        build.qwen35, lambda g: g.put("qwen35.ssm.inner_size", U32, 14), "P304", "inner_size"
    ),
    "no experts where all are": Case(
        build.llama, renamed("llama", "smallthinker"), "P302", "smallthinker.expert_count"
    ),
    "division by no experts": Case(
        build.qwen35, renamed("qwen35", "qwen35moe"), "P302", "qwen35moe.expert_count"
    ),
    "a state space as wide as the model": Case(
        build.qwen35, renamed("qwen35", "jamba"), "P304", "jamba.ssm.inner_size"
    ),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_by_name(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    gguf = case.model()
    case.change(gguf)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf.encode())
    error = refusal(case.kind, path, None)
    assert error is not None
    shown = as_text(error.diagnostics)
    assert f"error[{case.code}]" in shown
    assert case.mention in shown


@pytest.mark.engine
@pytest.mark.parametrize("name", CASES)
def test_the_engine_would_have_died(name: str, tmp_path: Path, engine: Engine) -> None:
    """A rule that the engine keeps by itself is not needed."""
    case = CASES[name]
    gguf = case.model()
    case.change(gguf)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf.encode())
    how, stage, words = engine.outcome(case.kind, path, None)
    assert how == "dies", (stage, words)
