"""Text to tokens and back, on the fixtures' byte vocabulary."""

from __future__ import annotations

from typing import Any

import pytest

from power.backends.llamacpp.library import NativeLog


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


def test_a_templates_bos_is_not_doubled(lab: Any) -> None:
    engine = lab.open()
    assert engine.tokenize("<s>ab", special=True).count(1) == 1
    assert engine.tokenize("ab", special=True).count(1) == 1


def test_control_tokens_have_no_text(lab: Any) -> None:
    vocabulary = lab.open().vocabulary
    assert [vocabulary.piece(t) for t in (1, 2, 3 + 0x41, 3 + 0xFF)] == [b"", b"", b"A", b"\xff"]


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
