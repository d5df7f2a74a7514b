"""Vocabularies: one changed thing, at any id, changes the digest and fails the comparison."""

from collections.abc import Callable

import pytest

from power.artifact.comparison import compare
from power.artifact.findings import Findings
from power.artifact.header import Header
from power.artifact.vocabulary import Vocabulary, vocabulary_of
from power.diagnostics import PowerError, as_text
from tests.artifact.build import BOOL, F32, I32, STRING, TOKENS, U32, Gguf, tokenizer
from tests.artifact.conftest import Read, Refusal

LAST = len(TOKENS) - 1
MERGES = ["w o", "wo r", "wor d"]


def _bpe() -> Gguf:
    gguf = tokenizer(Gguf()).put("tokenizer.ggml.model", STRING, "gpt2")
    return gguf.put_array("tokenizer.ggml.merges", STRING, MERGES)


def _token(index: int, text: str) -> Callable[[Gguf], object]:
    tokens = [*TOKENS]
    tokens[index] = text
    return lambda gguf: gguf.put_array("tokenizer.ggml.tokens", STRING, tokens)


def _type(index: int) -> Callable[[Gguf], object]:
    types = [2, 3, 3, 3] + [1] * (len(TOKENS) - 4)
    types[index] = 4
    return lambda gguf: gguf.put_array("tokenizer.ggml.token_type", I32, types)


DIFFERENCES: dict[str, tuple[Callable[[Gguf], object], str]] = {
    **{f"text of {i}": (_token(i, "other"), f"token {i} ") for i in (0, 4, 5, LAST)},
    **{f"type of {i}": (_type(i), f"token {i} has another type") for i in (0, 4, 5, LAST)},
    "two ids swapped": (
        lambda g: g.put_array("tokenizer.ggml.tokens", STRING, [*TOKENS[:-2], *TOKENS[:-3:-1]]),
        f"token {LAST - 1} ",
    ),
    "one token more": (lambda g: tokenizer(g, [*TOKENS, "more"]), "273 tokens"),
    "one token less": (lambda g: tokenizer(g, TOKENS[:-1]), "271 tokens"),
    "no types": (lambda g: g.drop("tokenizer.ggml.token_type"), "tokenizer.ggml.token_type"),
    "merges in another order": (
        lambda g: g.put_array("tokenizer.ggml.merges", STRING, MERGES[::-1]),
        "merge 0 of `tokenizer.ggml.merges`",
    ),
    "one merge less": (
        lambda g: g.put_array("tokenizer.ggml.merges", STRING, MERGES[:-1]),
        "2 merges",
    ),
    "another tokenizer": (
        lambda g: g.put("tokenizer.ggml.model", STRING, "llama"),
        "tokenizer.ggml.model",
    ),
    "another pre-tokenizer": (
        lambda g: g.put("tokenizer.ggml.pre", STRING, "qwen2"),
        "tokenizer.ggml.pre",
    ),
    "another bos": (lambda g: g.put("tokenizer.ggml.bos_token_id", U32, 2), "bos_token_id"),
    "another eos": (lambda g: g.put("tokenizer.ggml.eos_token_id", U32, 1), "eos_token_id"),
    "another eot": (lambda g: g.put("tokenizer.ggml.eot_token_id", U32, 9), "end generation"),
    "add_bos": (lambda g: g.put("tokenizer.ggml.add_bos_token", BOOL, 1), "add_bos_token"),
    "add_eos": (lambda g: g.put("tokenizer.ggml.add_eos_token", BOOL, 1), "add_eos_token"),
}


def _compared(draft: Vocabulary, target: Vocabulary, ignore: tuple[str, ...] = ()) -> str:
    findings = Findings()
    compare(findings, draft, target, ignore)
    try:
        findings.raise_any()
    except PowerError as error:
        return as_text(error.diagnostics)
    return ""


@pytest.mark.complaint(n=3)
@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_found(name: str, read: Read) -> None:
    change, mention = DIFFERENCES[name]
    changed = _bpe()
    change(changed)
    target = vocabulary_of(read(_bpe()))
    draft = vocabulary_of(read(changed))
    assert mention in _compared(draft, target)
    assert _compared(target, draft) != ""
    assert draft.sha256() != target.sha256()


def test_equal_vocabularies_compare_equal(read: Read) -> None:
    one, two = vocabulary_of(read(_bpe())), vocabulary_of(read(_bpe().put("x", U32, 1)))
    assert _compared(one, two) == ""
    assert one.sha256() == two.sha256()


def test_scores_are_noted_not_refused(read: Read) -> None:
    other = _bpe().put_array("tokenizer.ggml.scores", F32, [0.5] * len(TOKENS))
    findings = Findings()
    notes = compare(findings, vocabulary_of(read(other)), vocabulary_of(read(_bpe())))
    assert len(findings) == 0
    assert len(notes) == 1
    assert "scores" in notes[0]


def test_a_token_of_the_drafts_own_can_be_ignored(read: Read) -> None:
    target = vocabulary_of(read(_bpe()))
    draft = vocabulary_of(read(_bpe().put("tokenizer.ggml.mask_token_id", U32, 3)))
    assert "mask_token_id" in _compared(draft, target)
    assert _compared(draft, target, ("mask",)) == ""


def test_texts_of_special_tokens(read: Read) -> None:
    vocabulary = vocabulary_of(read(_bpe()))
    assert vocabulary.text("bos") == "<s>"
    assert vocabulary.text("eot") == ""
    assert len(vocabulary) == len(TOKENS)


def test_a_broken_vocabulary_raises(read: Read, refusal: Refusal) -> None:
    header = read(_bpe().drop("tokenizer.ggml.tokens"))
    assert "`tokenizer.ggml.tokens` is missing" in refusal(lambda: vocabulary_of(header))


@pytest.mark.parametrize(
    ("texts", "accepted"),
    [
        (["<", "w"], True),
        (["<", "\\x77"], True),
        (["\\x3c", "w"], True),
        (["<", "\\x78"], False),
        (["<", "\\w"], True),
        (["<", "\\n"], False),
    ],
)
def test_a_byte_that_begins_a_text_of_rwkv_is_one_itself(
    read: Read, refusal: Refusal, texts: list[str], accepted: bool
) -> None:
    gguf = tokenizer(Gguf(), [*TOKENS[:-2], *texts]).put("tokenizer.ggml.model", STRING, "rwkv")
    header = read(gguf)
    if accepted:
        assert len(vocabulary_of(header)) == len(TOKENS)
    else:
        assert "a token of the byte 0x77" in refusal(lambda: vocabulary_of(header))


@pytest.mark.parametrize("model", ["t5", "rwkv"])
def test_a_text_that_the_engine_keeps_as_a_tree_is_no_deeper_than_its_stack(
    read: Read, refusal: Refusal, model: str
) -> None:
    def header(size: int) -> Header:
        tokens = [*TOKENS[:-3], "<", "w", "w" * size]
        return read(tokenizer(Gguf(), tokens).put("tokenizer.ggml.model", STRING, model))

    assert len(vocabulary_of(header(8192))) == len(TOKENS)
    found = refusal(lambda: vocabulary_of(header(8193)))
    assert f"too long for the tree of `{model}`" in found
    assert "8193 bytes" in found


@pytest.mark.complaint(n=19)
@pytest.mark.parametrize(
    ("texts", "special", "ends"),
    [
        (["a", "b"], {}, {2}),
        (["<|im_end|>", "<|endoftext|>"], {}, {2, 272, 273}),
        (["a", "b"], {"eot": 272, "eom": 273}, {2, 272, 273}),
        (["<|fim_pad|>", "<|file_sep|>"], {}, {2, 272, 273}),
        (["<|fim_pad|>", "b"], {"fim_pad": 273}, {2, 273}),
        (["<|fim_middle|>", "<|fim_suffix|>"], {}, {2}),
        (["<|end|>", "<|call|>", "<|return|>"], {}, {2, 273, 274}),
        (["<|end|>", "<|calls|>", "<|flush|>"], {}, {2, 273, 274}),
        (["<|end|>", "<|call|>"], {}, {2, 272, 273}),
        (["<|tool_response>", "<turn|>"], {"eos": 273}, {272, 273}),
    ],
)
def test_the_set_that_ends_generation(
    texts: list[str], special: dict[str, int], ends: set[int], read: Read
) -> None:
    """`</s>` is token 2 and the stated end; ids from 272 on are `texts`."""
    gguf = tokenizer(Gguf(), [*TOKENS, *texts])
    for name, number in special.items():
        gguf.put(f"tokenizer.ggml.{name}_token_id", U32, number)
    assert vocabulary_of(read(gguf)).eog == ends
