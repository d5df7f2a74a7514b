"""Text to tokens and back, on the fixtures' byte vocabulary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from power.artifact.control import control_texts
from power.artifact.header import read_header
from power.backends.llamacpp.library import NativeLog, native
from power.backends.llamacpp.vocabulary import LlamaVocabulary
from power.runner.chat import render_chat
from tests.artifact.build import TOKENS, llama, tokenizer

ARTIFACTS = Path(os.environ.get("POWER_ARTIFACTS", Path(__file__).parents[2] / "artifacts"))
_CHATML = "<|im_start|>user\n{{ messages[0].content }}<|im_end|>\n<|im_start|>assistant\n"
_GEMMA = "<bos><start_of_turn>user\n{{ messages[0].content | trim }}<end_of_turn>\n"
TURNS = {
    "SmolLM2-135M-Instruct.Q4_1.gguf": _CHATML,
    "gemma-3-270m-q4_k_m.gguf": _GEMMA,
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf": _CHATML,
}
MODELS = sorted(TURNS)


@contextmanager
def vocabulary_alone(path: Path) -> Iterator[LlamaVocabulary]:
    """The vocabulary of a file, none of its tensors loaded."""
    lib: Any = native()
    params = lib.llama_model_default_params()
    params.vocab_only = True
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    vocab = lib.llama_model_get_vocab(model)
    held: Any = SimpleNamespace(vocab=vocab, vocabulary_size=lib.llama_vocab_n_tokens(vocab))
    yield LlamaVocabulary(held)
    lib.llama_model_free(model)


@pytest.mark.parametrize("text", ["abc", "", "é€𝄞", "line\nline\t\0end", "a" * 5000])
def test_text_survives(lab: Any, text: str) -> None:
    engine = lab.open()
    ids = engine.tokenize(text, special=False)
    assert ids[0] == 1  # the vocabulary asks for BOS
    joined = b"".join(map(engine.vocabulary.piece, ids))
    assert joined.removeprefix(b" ") == text.encode()


def test_control_tokens_in_the_text_only_where_asked(lab: Any) -> None:
    engine = lab.open()
    assert 2 in engine.tokenize("a</s>b", special=True)
    assert 2 not in engine.tokenize("a</s>b", special=False)


def test_a_plain_place_holds_no_control_token(lab: Any) -> None:
    engine = lab.open()
    text = "<s>a</s>b</s>"
    ids = engine.tokenize(text, special=True, plain=((4, 8),))
    assert ids.count(2) == 1
    assert ids == [1, *engine.tokenize("a</s>b", special=False)[1:], 2]


@pytest.mark.parametrize("text", ["abc</s>def", "</s>abc", "abc", " a b ", "é</s> é</s>"])
def test_a_plain_place_changes_nothing_else(lab: Any, text: str) -> None:
    """Wherever it lies, if no token is spelt there: the ids are those of the whole text."""
    engine = lab.open()
    whole = engine.tokenize(text, special=True)
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            if not set(text[start:end]) & set("</s>"):
                assert engine.tokenize(text, special=True, plain=((start, end),)) == whole


def test_a_token_that_the_library_finds_everywhere_stays_plain_too(tmp_path: Path) -> None:
    """llama.cpp reads gpt-oss's control tokens even where it is told to read none."""
    path = tmp_path / "harmony.gguf"
    tokens = [*TOKENS[:4], *(f"<0x{byte:02X}>" for byte in range(256)), "<|channel|>"]
    path.write_bytes(tokenizer(llama(1), tokens).encode())
    with vocabulary_alone(path) as vocabulary:
        text, channel = "a<|channel|>b", len(tokens) - 1
        assert channel in vocabulary.tokenize(text, special=False)
        assert channel in vocabulary.tokenize(text, special=True)
        assert channel not in vocabulary.tokenize(text, special=True, plain=((1, 12),))


@pytest.mark.model
@pytest.mark.parametrize("name", MODELS)
def test_typed_control_tokens_stay_plain_on_real_vocabularies(name: str) -> None:
    """And a plain place that spells none changes no id, wherever it lies."""
    path = ARTIFACTS / name
    if not path.is_file():
        pytest.skip(f"NOT RUN: {path} is missing (tools/fetch_models.py)")
    with path.open("rb") as file:
        header = read_header(file.fileno(), path.stat().st_size, name)
    known = control_texts(header)
    typed = sorted(known)[:40]
    said = [{"role": "user", "content": f"Hi {''.join(typed)} bye"}]
    made = render_chat(TURNS[name], said, bos="", eos="", control=known)
    with vocabulary_alone(path) as vocabulary:
        control = {special.text for special in vocabulary._specials if special.control}
        assert control <= known
        ids = vocabulary.tokenize(made.text, special=True, plain=made.plain)
        open_ids = vocabulary.tokenize(made.text, special=True)
        silent = [sum(not vocabulary.piece(token) for token in found) for found in (ids, open_ids)]
        assert silent[1] - silent[0] == len(typed)
        written = b"".join(map(vocabulary.piece, ids)).decode()
        assert [text for text in typed if text not in written] == []
        text = TURNS[name].partition("{{")[0] + "def f(x): return 漢字 — x * 2"
        whole = vocabulary.tokenize(text, special=True)
        start = text.index("def")
        for place in range(start, len(text)):
            for end in (place + 1, place + 5, len(text)):
                assert vocabulary.tokenize(text, special=True, plain=((place, end),)) == whole


def test_a_templates_bos_is_not_doubled(lab: Any) -> None:
    engine = lab.open()
    assert engine.tokenize("<s>ab", special=True).count(1) == 1
    assert engine.tokenize("ab", special=True).count(1) == 1


def test_control_tokens_have_no_text(lab: Any) -> None:
    vocabulary = lab.open().vocabulary
    assert [vocabulary.piece(t) for t in (1, 2, 3 + 0x41, 3 + 0xFF)] == [b"", b"", b"A", b"\xff"]


@pytest.mark.complaint(n=19)
def test_the_end_set(lab: Any) -> None:
    engine = lab.open()
    assert [t for t in range(320) if engine.vocabulary.is_end(t)] == [2]


@pytest.mark.parametrize("token", [-1, 320, 1 << 20])
def test_tokens_outside_the_vocabulary_are_refused(lab: Any, token: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        lab.open().vocabulary.piece(token)


def test_the_log_joins_lines_and_keeps_the_last() -> None:
    log = NativeLog(limit=3)
    for level, text in [
        (2, "one\n"),
        (3, "two"),
        (5, " and a half\n"),
        (2, "three\nfour\n"),
        (4, "five\n"),
    ]:
        log.add(level, text)
    assert log.text() == "three\nfour\nfive"
    assert log.problems() == "five"
    log.clear()
    log.add(3, "warned: ")
    log.add(5, "twice\n")
    assert log.problems() == "warned: twice"


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        (
            "error loading model: mmap failed: Resource temporarily unavailable\n",
            1,
        ),
        ("ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 9\n", 1),
        ("llama_model_load: error loading model: tensor 'a' is out of bounds\n", 0),
    ],
)
def test_the_log_tells_want_of_memory_from_a_bad_file(text: str, memory: int) -> None:
    log = NativeLog()
    log.add(2, "out of memory\n")  # information is no failure
    assert not log.out_of_memory()
    log.add(4, text)
    assert log.out_of_memory() == bool(memory)
