"""Targets: whatever the engine would end its process on, or run wrongly, is refused first."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from power.artifact.target import check_target, unproven
from tests.artifact.build import (
    BOOL,
    F32,
    HEAD,
    I32,
    INNER,
    STRING,
    TOKENS,
    TYPES,
    U8,
    U32,
    WIDTH,
    Gguf,
    gemma3,
    llama,
    qwen,
    qwen35,
    sizes,
    tokenizer,
)
from tests.artifact.conftest import Read, Refusal

Change = Callable[[Gguf], object]


def _uint(key: str, value: int) -> Change:
    return lambda gguf: gguf.put(f"llama.{key}", U32, value)


def _real(key: str, value: float) -> Change:
    return lambda gguf: gguf.put(f"llama.{key}", F32, value)


def _byte_pairs(gguf: Gguf) -> Gguf:
    gguf.put("tokenizer.ggml.model", STRING, "gpt2")
    return gguf.put_array("tokenizer.ggml.merges", STRING, ["w o", "wo r"])


REFUSED: dict[str, tuple[Change, str, str]] = {
    # What ends the engine's process (numbers in llama.cpp's load_hparams).
    "no blocks": (_uint("block_count", 0), "P304", "llama.block_count"),
    "513 blocks": (_uint("block_count", 513), "P304", "llama.block_count"),
    "more prediction blocks than blocks": (
        _uint("nextn_predict_layers", 4),
        "P304",
        "llama.nextn_predict_layers",
    ),
    "experts, none used": (_uint("expert_count", 4), "P302", "llama.expert_used_count"),
    "used experts without experts": (
        _uint("expert_used_count", 2),
        "P304",
        "llama.expert_used_count",
    ),
    "more experts used than there are": (
        lambda g: (_uint("expert_count", 4)(g), _uint("expert_used_count", 5)(g)),
        "P304",
        "llama.expert_used_count",
    ),
    "2000 experts": (_uint("expert_count", 2000), "P304", "llama.expert_count"),
    "expert groups that do not divide": (
        lambda g: (
            _uint("expert_count", 8)(g),
            _uint("expert_used_count", 2)(g),
            _uint("expert_group_count", 3)(g),
            _uint("expert_group_used_count", 1)(g),
        ),
        "P304",
        "llama.expert_group_count",
    ),
    "unknown rope scaling": (
        lambda g: g.put("llama.rope.scaling.type", STRING, "bogus"),
        "P304",
        "llama.rope.scaling.type",
    ),
    "kv heads that do not divide": (
        _uint("attention.head_count_kv", 3),
        "P304",
        "no multiple of",
    ),
    "odd rotation": (_uint("rope.dimension_count", 7), "P304", "llama.rope.dimension_count"),
    "rotation beyond the head": (_uint("rope.dimension_count", 10), "P304", "expected: 8"),
    "rotation of half a head in llama": (_uint("rope.dimension_count", 4), "P304", "expected: 8"),
    "values longer than keys": (
        _uint("attention.value_length", 16),
        "P304",
        "llama.attention.value_length",
    ),
    "integer embeddings": (
        lambda g: g.tensor("token_embd.weight", type=TYPES["I32"]),
        "P306",
        "token_embd.weight",
    ),
    "integer weights in a block": (
        lambda g: g.tensor("blk.1.ffn_up.weight", type=TYPES["I8"]),
        "P306",
        "blk.1.ffn_up.weight",
    ),
    # What would run wrongly.
    "no context": (_uint("context_length", 0), "P304", "llama.context_length"),
    "no feed-forward for the tensors": (_uint("feed_forward_length", 0), "P306", "ffn_gate"),
    "another width": (_uint("embedding_length", 64), "P306", "token_embd.weight"),
    "NaN norm epsilon": (
        _real("attention.layer_norm_rms_epsilon", math.nan),
        "P304",
        "epsilon",
    ),
    "infinite logit scale": (_real("logit_scale", math.inf), "P304", "llama.logit_scale"),
    "negative rope base": (_real("rope.freq_base", -1.0), "P304", "llama.rope.freq_base"),
    "heads as int32": (
        lambda g: g.put("llama.attention.head_count", I32, 4),
        "P303",
        "llama.attention.head_count",
    ),
    "heads as texts": (
        lambda g: g.put_array("llama.attention.head_count", STRING, ["4"]),
        "P303",
        "llama.attention.head_count",
    ),
    "heads missing": (
        lambda g: g.drop("llama.attention.head_count"),
        "P302",
        "llama.attention.head_count",
    ),
    "architecture as a number": (
        lambda g: g.put("general.architecture", U32, 1),
        "P303",
        "general.architecture",
    ),
    "an encoder": (
        lambda g: g.put("general.architecture", STRING, "bert"),
        "P301",
        "an embedding model or encoder",
    ),
    "a draft head": (
        lambda g: g.put("general.architecture", STRING, "eagle3"),
        "P301",
        "an EAGLE-3 draft head",
    ),
    "a block without its norm": (
        lambda g: g.drop("blk.1.attn_norm.weight"),
        "P305",
        "blk.1.attn_norm.weight",
    ),
    "no embeddings": (lambda g: g.drop("token_embd.weight"), "P305", "token_embd.weight"),
    "an output of another size": (
        lambda g: g.tensor("output.weight", (WIDTH, 7)),
        "P306",
        "output.weight",
    ),
    "prediction claimed without its block": (
        _uint("nextn_predict_layers", 1),
        "P304",
        "no `nextn` tensors",
    ),
    # The tokenizer.
    "types of another length": (
        lambda g: g.put_array("tokenizer.ggml.token_type", I32, [1] * 7),
        "P310",
        "7 items for 272 tokens",
    ),
    "a negative type": (
        lambda g: g.put_array("tokenizer.ggml.token_type", I32, [1] * 271 + [-1]),
        "P310",
        "token 271 has type -1",
    ),
    "type 7": (
        lambda g: g.put_array("tokenizer.ggml.token_type", I32, [7] + [1] * 271),
        "P310",
        "token 0 has type 7",
    ),
    "scores of another length": (
        lambda g: g.put_array("tokenizer.ggml.scores", F32, [0.0] * 273),
        "P310",
        "273 items for 272 tokens",
    ),
    "a score of NaN": (
        lambda g: g.put_array("tokenizer.ggml.scores", F32, [math.nan] + [0.0] * 271),
        "P310",
        "not finite",
    ),
    "bos outside": (
        lambda g: g.put("tokenizer.ggml.bos_token_id", U32, 272),
        "P312",
        "`tokenizer.ggml.bos_token_id` is 272",
    ),
    "a fill-in token outside": (
        lambda g: g.put("tokenizer.ggml.fim_pad_token_id", U32, 999),
        "P312",
        "fim_pad_token_id",
    ),
    "eos as int32": (
        lambda g: g.put("tokenizer.ggml.eos_token_id", I32, 2),
        "P303",
        "eos_token_id",
    ),
    "add_bos as a number": (
        lambda g: g.put("tokenizer.ggml.add_bos_token", U32, 1),
        "P303",
        "add_bos_token",
    ),
    "an unknown tokenizer": (
        lambda g: g.put("tokenizer.ggml.model", STRING, "bert"),
        "P310",
        "tokenizer.ggml.model",
    ),
    "byte-pair encoding without merges": (
        lambda g: g.put("tokenizer.ggml.model", STRING, "gpt2"),
        "P302",
        "tokenizer.ggml.merges",
    ),
    "a token with NUL": (
        lambda g: g.put_array("tokenizer.ggml.tokens", STRING, [*TOKENS[:-1], "a\0"]),
        "P311",
        "token 271",
    ),
    "a token that sets the window's title": (
        lambda g: g.put_array("tokenizer.ggml.tokens", STRING, [*TOKENS[:-1], "\x1b]0;x\x07"]),
        "P311",
        "token 271",
    ),
    "a token that is not UTF-8": (
        lambda g: g.put_array("tokenizer.ggml.tokens", STRING, [*TOKENS[:-1], b"\xff\xfe"]),
        "P311",
        "token 271 is not UTF-8",
    ),
    "a control character where bytes are spelled": (
        lambda g: _byte_pairs(g).put_array(
            "tokenizer.ggml.tokens", STRING, [*TOKENS[:-1], "\x1b["]
        ),
        "P311",
        "token 271",
    ),
    "a merge without a separator": (
        lambda g: _byte_pairs(g).put_array("tokenizer.ggml.merges", STRING, ["w o", " x"]),
        "P310",
        "merge 1 has no separator",
    ),
    "merges as numbers": (
        lambda g: _byte_pairs(g).put_array("tokenizer.ggml.merges", I32, [1]),
        "P303",
        "tokenizer.ggml.merges",
    ),
    "types of bytes": (
        lambda g: g.put_array("tokenizer.ggml.token_type", U8, [1] * 272),
        "P303",
        "array of uint8",
    ),
    "no end token": (
        lambda g: g.drop("tokenizer.ggml.eos_token_id"),
        "P312",
        "`tokenizer.ggml.eos_token_id` is missing",
    ),
    "a vocabulary size of its own": (_uint("vocab_size", 31), "P304", "llama.vocab_size"),
    "an adapter": (lambda g: g.put("general.type", STRING, "adapter"), "P301", "general.type"),
    "no tensors": (lambda g: g.drop(*(t.name for t in g.tensors)), "P301", "no tensor"),
    "heads by layer, one of them absurd": (
        lambda g: g.put_array("llama.attention.head_count", U32, [4, 4, 1 << 20]),
        "P304",
        "llama.attention.head_count",
    ),
    "no tokens": (lambda g: tokenizer(g, []), "P311", "the vocabulary is empty"),
    "the engine's name for an empty token": (
        lambda g: g.put_array("tokenizer.ggml.tokens", STRING, ["[EMPTY_1]", "", *TOKENS[2:]]),
        "P311",
        "tokens 0 and 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, read: Read, refusal: Refusal) -> None:
    change, code, mention = REFUSED[name]
    gguf = llama()
    change(gguf)
    header = read(gguf)
    shown = refusal(lambda: check_target(header))
    assert f"error[{code}]" in shown
    assert mention in shown


ACCEPTED: dict[str, Change] = {
    "as it is": lambda _: None,
    "no general.type": lambda g: g.drop("general.type"),
    "an output of its own": lambda g: g.tensor("output.weight", (WIDTH, len(TOKENS))),
    "biases and scales the engine knows": lambda g: g.tensor("blk.0.attn_q.bias", (WIDTH,)),
    "fused projections": lambda g: g.drop(*(f"blk.0.attn_{part}.weight" for part in "qkv")).tensor(
        "blk.0.attn_qkv.weight", (WIDTH, 3 * WIDTH)
    ),
    "yarn": lambda g: g.put("llama.rope.scaling.type", STRING, "yarn").put(
        "llama.rope.scaling.factor", F32, 4.0
    ),
    "no kv heads: as many as heads": lambda g: g.drop("llama.attention.head_count_kv"),
    "head sizes from the width": lambda g: g.drop(
        "llama.attention.key_length", "llama.attention.value_length"
    ),
    "no pre-tokenizer": lambda g: g.drop("tokenizer.ggml.pre"),
    "a lone escape character, a token of real vocabularies": lambda g: g.put_array(
        "tokenizer.ggml.tokens", STRING, [*TOKENS[:-1], "\x1b["]
    ),
    "empty tokens, which the engine tells apart": lambda g: g.put_array(
        "tokenizer.ggml.tokens", STRING, [*TOKENS[:-2], "", ""]
    ),
    # A merge that names no token never fires: the engine ignores it, the digest has it.
    "merges of unknown tokens": lambda g: g.put("tokenizer.ggml.model", STRING, "gpt2").put_array(
        "tokenizer.ggml.merges", STRING, ["qq zz", " a b"]
    ),
    "integer scores": lambda g: g.put_array("tokenizer.ggml.scores", I32, [0] * len(TOKENS)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str, read: Read) -> None:
    gguf = llama()
    ACCEPTED[name](gguf)
    assert check_target(read(gguf)).vocabulary == len(TOKENS)


def test_everything_wrong_is_said_at_once(read: Read, refusal: Refusal) -> None:
    gguf = llama().put("llama.context_length", U32, 0).put("tokenizer.ggml.eos_token_id", U32, 999)
    gguf.put("llama.rope.freq_base", F32, math.nan)
    header = read(gguf)
    shown = refusal(lambda: check_target(header))
    assert shown.count("error[") == 3


def test_findings_are_bounded(read: Read, refusal: Refusal) -> None:
    """A file that shares nothing with its metadata does not fill the terminal."""
    header = read(llama(40).put("llama.embedding_length", U32, 64).drop())
    assert refusal(lambda: check_target(header)).count("error[") == 25


def test_facts(read: Read) -> None:
    gguf = llama().put("tokenizer.chat_template", STRING, "{{ x }}")
    facts = check_target(read(gguf))
    assert facts.architecture == "llama"
    assert facts.file_type == "ALL_F32"
    assert (facts.layers, facts.width, facts.context, facts.nextn_layers) == (3, WIDTH, 128, 0)
    assert (facts.tokenizer_model, facts.pre_tokenizer) == ("llama", "default")
    assert facts.recurrent is False
    assert facts.chat_template_sha256 is not None
    plain = check_target(read(llama().drop("general.file_type")))
    assert plain == replace(facts, file_type="unknown", chat_template_sha256=None)
    assert check_target(read(llama().put("general.file_type", U32, 999))).file_type == "unknown"


def test_a_hybrid_is_recurrent(read: Read) -> None:
    facts = check_target(read(qwen35()))
    assert facts.recurrent
    assert (facts.layers, facts.nextn_layers) == (3, 1)
    flags = qwen35().drop("qwen35.full_attention_interval")
    flags.put_array("qwen35.attention.recurrent_layers", BOOL, [1, 0, 0])
    assert check_target(read(flags)) == facts


def test_layer_flags_that_are_numbers(read: Read, refusal: Refusal) -> None:
    header = read(qwen35().put_array("qwen35.attention.recurrent_layers", U32, [1, 0, 0]))
    assert "array of bool" in refusal(lambda: check_target(header))


def test_a_hybrid_needs_its_sizes(read: Read, refusal: Refusal) -> None:
    header = read(qwen35().drop("qwen35.ssm.state_size"))
    assert "`qwen35.ssm.state_size` is missing" in refusal(lambda: check_target(header))


@pytest.mark.parametrize(
    "name", ["blk.0.ssm_a", "blk.0.attn_qkv.weight", "blk.2.nextn.eh_proj.weight"]
)
def test_a_hybrid_needs_its_tensors(name: str, read: Read, refusal: Refusal) -> None:
    header = read(qwen35().drop(name))
    assert f"tensor `{name}` is missing" in refusal(lambda: check_target(header))


def test_sizes_that_differ_by_layer(read: Read, refusal: Refusal) -> None:
    """Arrays are read as the engine does; recipes do not apply, embeddings and blocks do."""
    gguf = llama().put_array("llama.attention.head_count", U32, [4, 4, 2])
    gguf.put_array("llama.attention.head_count_kv", U32, [2, 4, 1])
    assert check_target(read(gguf)).layers == 3
    gguf.put_array("llama.attention.head_count_kv", U32, [3, 4, 1])
    header = read(gguf)
    assert "no multiple of" in refusal(lambda: check_target(header))


def test_every_layer_of_a_llama_attends(read: Read, refusal: Refusal) -> None:
    """A layer without keys ends the engine's process."""
    header = read(llama().put_array("llama.attention.head_count_kv", U32, [4, 0, 4]))
    assert "`llama.attention.head_count_kv` is 0" in refusal(lambda: check_target(header))


def test_an_architecture_without_a_recipe(read: Read, refusal: Refusal) -> None:
    gguf = tokenizer(sizes(Gguf(), "olmo", 2))
    gguf.tensor("token_embd.weight", (WIDTH, len(TOKENS))).tensor("blk.0.x.weight", (INNER,))
    header = read(gguf)
    assert "no tensor of block 1" in refusal(lambda: check_target(header))
    header = read(gguf.tensor("blk.1.x.weight", (HEAD,)))
    assert check_target(header).architecture == "olmo"
    assert unproven(header) == "the architecture `olmo`"


def test_what_is_known_tensor_by_tensor(read: Read) -> None:
    for known in (llama(), qwen(), qwen(2), gemma3(), qwen35()):
        assert unproven(read(known)) is None
    mixture = llama()
    for key, value in (("expert_count", 8), ("expert_used_count", 2)):
        _uint(key, value)(mixture)
    assert unproven(read(mixture)) == "a mixture of 8 experts"
    uneven = llama().put_array("llama.attention.head_count", U32, [4, 4, 2])
    uneven.put_array("llama.attention.head_count_kv", U32, [2, 4, 1])
    assert unproven(read(uneven)) == "a model whose layers differ in size"


def test_a_model_without_attention(read: Read) -> None:
    gguf = tokenizer(sizes(Gguf(), "mamba", 1))
    gguf.drop(*(key for key, _, _ in gguf.pairs if "attention.head" in str(key)))
    gguf.drop("mamba.attention.key_length", "mamba.attention.value_length")
    gguf.tensor("token_embd.weight", (WIDTH, len(TOKENS))).tensor("blk.0.ssm_a", (HEAD,))
    assert check_target(read(gguf)).recurrent


@pytest.mark.parametrize("key", ["attention.head_count", "attention.head_count_kv"])
def test_heads_that_differ_where_the_first_layer_shapes_all(
    read: Read, refusal: Refusal, key: str
) -> None:
    """The engine ends the process when it builds the graph of the layer that differs."""
    gguf = tokenizer(sizes(Gguf(), "qwen2", 2))
    gguf.tensor("token_embd.weight", (WIDTH, len(TOKENS)))
    header = read(gguf.put_array(f"qwen2.{key}", U32, [4, 2] if key.endswith("count") else [2, 1]))
    assert f"`qwen2.{key}` differs by layer" in refusal(lambda: check_target(header))
    header = read(gguf.put_array(f"qwen2.{key}", U32, [2, 2]))
    assert "differs by layer" not in refusal(lambda: check_target(header))
