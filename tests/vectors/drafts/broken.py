"""Drafts that the engine can not be trusted with: what is wrong, and what must say so.

Every one is refused by a contract; `tests/engine/test_validator_needed.py` runs
them past it. `build` writes them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.artifact import build
from tests.artifact.build import (
    BOOL,
    F32,
    HEAD,
    HEADS,
    I32,
    STRING,
    TOKENS,
    TYPES,
    U32,
    WIDTH,
    Gguf,
    llama,
    qwen35,
    reduced,
    tokenizer,
)

DRAFTS: dict[str, Callable[[], Gguf]] = {
    "eagle3": build.eagle3,
    "dflash": build.dflash,
    "dflash2": build.dflash2,
    "dspark": build.dspark,
    "mtp": lambda: build.native_table([9, 2, 5]),
}


def no_taps() -> Gguf:
    """A target whose graph does not show the inputs of its layers."""
    gguf = llama()
    gguf.pairs = [(str(k).replace("llama.", "qwen2."), kind, v) for k, kind, v in gguf.pairs]
    for block in range(3):
        for part in "qkv":
            gguf.tensor(f"blk.{block}.attn_{part}.bias", (WIDTH,))
    return gguf.put("general.architecture", STRING, "qwen2")


TARGETS: dict[str, Callable[[], Gguf]] = {
    "llama": llama,
    "llama-layer-without-keys": lambda: llama().put_array(
        "llama.attention.head_count_kv", U32, [HEADS, 0, HEADS]
    ),
    "llama-norms-of-16-bits": lambda: llama().tensor("output_norm.weight", type=TYPES["F16"]),
    "qwen2-no-taps": no_taps,
    "qwen35": qwen35,
    "qwen35-nothing-turns": lambda: _turning([0, 0, 0, 0]),
    "qwen35-too-much-turns": lambda: _turning([9, 9, 9, 9]),
    "qwen35-another-state": lambda: qwen35().put("qwen35.ssm.inner_size", U32, 64),
}


@dataclass(frozen=True, slots=True)
class Broken:
    """One file.

    change: makes the good draft of `kind` bad. code, mention: what the refusal
    says. past: what the engine does with it otherwise: it `dies`, it `takes` it
    and drafts nonsense, or it `says no`: of what Power itself reads, and where no
    number comes out. target: a name of TARGETS. driven: the kind it is declared as,
    where that is another than what it is.
    """

    kind: str
    change: Callable[[Gguf], object]
    code: str
    mention: str
    past: str
    target: str = "llama"
    driven: str | None = None

    def encode(self) -> bytes:
        """The draft."""
        draft = DRAFTS[self.kind]()
        self.change(draft)
        return draft.encode()


def _turning(sections: Sequence[int]) -> Gguf:
    return qwen35().put_array("qwen35.rope.dimension_sections", I32, sections)


def _layers(kind: str, layers: Sequence[int]) -> Callable[[Gguf], object]:
    return lambda g: g.put_array(f"{kind}.target_layers", I32, layers)


def _put(key: str, value: float) -> Callable[[Gguf], object]:
    return lambda g: g.put(key, F32 if isinstance(value, float) else U32, value)


def _values_longer(g: Gguf) -> None:
    g.put("dflash.attention.value_length", U32, HEAD // 2)
    g.tensor("blk.0.attn_v.weight", (WIDTH, HEADS * HEAD // 2))


def _uneven_heads(g: Gguf) -> None:
    g.put("dflash.attention.head_count_kv", U32, 3)
    for part in "kv":
        g.tensor(f"blk.0.attn_{part}.weight", (WIDTH, 3 * HEAD))


def _one_text_twice(g: Gguf) -> None:
    g.put_array("tokenizer.ggml.tokens", STRING, [*TOKENS[:-1], TOKENS[-2]])


def _wide_head(g: Gguf) -> None:
    """Of a target twice as wide: what it reads of a row lies half outside."""
    g.put("eagle3.target_hidden_size", U32, 2 * WIDTH).tensor("fc.weight", (6 * WIDTH, WIDTH))


def _twice_as_wide(g: Gguf) -> None:
    """A whole head of another width, whose embeddings and output head are the target's."""
    g.put("dflash.embedding_length", U32, 2 * WIDTH)
    for key in ("head_count", "head_count_kv"):
        g.put(f"dflash.attention.{key}", U32, 2 * HEADS)
    for tensor in list(g.tensors):
        assert isinstance(tensor.name, str)
        shape = tuple(2 * size if size == WIDTH else size for size in tensor.shape)
        g.tensor(tensor.name, (4 * WIDTH, 2 * WIDTH) if tensor.name == "fc.weight" else shape)


def _ids(*ids: int) -> Callable[[Gguf], object]:
    return lambda g: g.tensor("d2t", data=build.ids_of(ids))


def _other_vocabulary(count: int) -> Callable[[Gguf], object]:
    """As many tokens, in a draft whose embeddings and head are the target's."""
    texts = [*TOKENS[:count], *(f"more{index}" for index in range(count - len(TOKENS)))]
    return lambda g: tokenizer(g, texts, mask=True)


_BROKEN: dict[str, tuple[str, Callable[[Gguf], object], str, str, str]] = {
    "no blocks": ("dflash", _put("dflash.block_count", 0), "P304", "block_count", "dies"),
    "more blocks than the engine has room for": (
        "dflash",
        _put("dflash.block_count", 4096),
        "P304",
        "block_count",
        "dies",
    ),
    "more prediction blocks than blocks": (
        "dflash",
        _put("dflash.nextn_predict_layers", 9),
        "P304",
        "nextn_predict_layers",
        "dies",
    ),
    "experts that nobody uses": (
        "dflash",
        _put("dflash.expert_count", 4),
        "P302",
        "expert_used_count",
        "dies",
    ),
    "a rotary scaling of another name": (
        "dflash",
        lambda g: g.put("dflash.rope.scaling.type", STRING, "bogus"),
        "P304",
        "rope.scaling.type",
        "dies",
    ),
    "one text for two tokens": ("dflash", _one_text_twice, "P311", TOKENS[-2], "dies"),
    "a layer far outside": ("dflash", _layers("dflash", [1, 99]), "P331", "layer 99", "dies"),
    "a layer below zero": ("eagle3", _layers("eagle3", [0, 1, -1]), "P331", "layer -1", "dies"),
    "the layer behind the last": ("dflash", _layers("dflash", [1, 3]), "P331", "layer 3", "dies"),
    "ids of 32 bits": (
        "dflash",
        lambda g: reduced(g, [1, 2]).tensor("d2t", type=TYPES["I32"], data=bytes(8)),
        "P333",
        "64-bit",
        "dies",
    ),
    "an id outside": ("dspark", lambda g: _markov(reduced(g, [1, 999])), "P333", "999", "dies"),
    "a negative id": ("eagle3", lambda g: reduced(g, [-3, 2]), "P333", "token -3", "dies"),
    "an id twice": ("dflash", lambda g: reduced(g, [2, 2]), "P333", "twice", "takes"),
    "ids without a head": (
        "dflash",
        lambda g: reduced(g, [1, 2]).drop("output.weight"),
        "P333",
        "no `output.weight`",
        "dies",
    ),
    "more tokens than the target": ("dflash", _other_vocabulary(280), "P320", "280", "says no"),
    "fewer tokens than the target": ("dflash", _other_vocabulary(270), "P320", "270", "says no"),
    "no block size": ("dspark", lambda g: g.drop("dflash.block_size"), "P302", "size", "dies"),
    "a block of nothing": ("dspark", _put("dflash.block_size", 0), "P304", "block_size", "dies"),
    "a block of the anchor alone": (
        "dflash",
        _put("dflash.block_size", 1),
        "P304",
        "block_size",
        "takes",
    ),
    "values shorter than keys": ("dflash", _values_longer, "P304", "value_length", "dies"),
    "heads that do not share evenly": ("dflash", _uneven_heads, "P304", "head_count_kv", "dies"),
    "embeddings of integers": (
        "dflash",
        lambda g: g.tensor("token_embd.weight", (WIDTH, len(TOKENS)), type=TYPES["I32"]).tensor(
            "output.weight", (WIDTH, len(TOKENS))
        ),
        "P306",
        "token_embd.weight",
        "dies",
    ),
    "a rotation wider than a head": (
        "dflash",
        _put("dflash.rope.dimension_count", 2 * HEAD),
        "P304",
        "rope.dimension_count",
        "dies",
    ),
    "a rotation of half a pair": (
        "dflash",
        _put("dflash.rope.dimension_count", HEAD - 1),
        "P304",
        "rope.dimension_count",
        "dies",
    ),
    "a window and no layer that slides": (
        "dflash",
        lambda g: g.put("dflash.attention.sliding_window", U32, 4).put_array(
            "dflash.attention.sliding_window_pattern", BOOL, [0]
        ),
        "P304",
        "no layer slides",
        "dies",
    ),
    "a head of another width": (
        "dflash",
        _twice_as_wide,
        "P331",
        "dflash.embedding_length",
        "dies",
    ),
    "features of a wider target": ("eagle3", _wide_head, "P331", "target_hidden_size", "takes"),
    "confidence without its head": (
        "dspark",
        lambda g: g.drop("conf_proj.weight", "conf_proj.bias"),
        "P305",
        "conf_proj.weight",
        "takes",
    ),
    "no rotation": ("dflash", _put("dflash.rope.freq_base", 0.0), "P304", "freq_base", "says no"),
    "no context": ("eagle3", _put("eagle3.context_length", 0), "P304", "context_length", "takes"),
    "rows of another width": (
        "dflash",
        _put("dflash.embedding_length_out", 16),
        "P304",
        "embedding_length_out",
        "takes",
    ),
    "norms of 16 bits": (
        "dflash",
        lambda g: g.tensor("enc.output_norm.weight", type=TYPES["F16"]),
        "P306",
        "enc.output_norm.weight",
        "dies",
    ),
    "weights of 64 bits": (
        "eagle3",
        lambda g: g.tensor("fc.weight", type=TYPES["F64"]),
        "P306",
        "fc.weight",
        "dies",
    ),
    "a convolution of 16 bits": (
        "dflash2",
        lambda g: g.tensor("blk.0.attn_conv_base", type=TYPES["F16"]),
        "P306",
        "blk.0.attn_conv_base",
        "dies",
    ),
    "heads that differ by layer": (
        "dspark",
        lambda g: g.put_array("dflash.attention.head_count", U32, [HEADS] * 2),
        "P304",
        "differs by layer",
        "says no",
    ),
    "no feed-forward length": (
        "eagle3",
        lambda g: g.drop("eagle3.feed_forward_length"),
        "P302",
        "feed_forward_length",
        "says no",
    ),
    "sections beyond the head": (
        "dflash",
        lambda g: g.put_array("dflash.rope.dimension_sections", I32, [9, 9, 9, 9]),
        "P304",
        "dimension_sections",
        "dies",
    ),
    "pooled rows": ("dspark", _put("dflash.pooling_type", 1), "P304", "pooling_type", "takes"),
}


def _markov(g: Gguf) -> Gguf:
    return g.tensor("markov_w2.weight", (4, 2))


BROKEN: dict[str, Broken] = {name: Broken(*row) for name, row in _BROKEN.items()} | {
    "a target that shows no layers": Broken(
        "dflash", lambda _: None, "P332", "`qwen2`", "dies", target="qwen2-no-taps"
    ),
    "a head of another kind": Broken(
        "dflash", lambda _: None, "P330", "`eagle3`", "dies", driven="eagle3"
    ),
    "a head of one layer as a block": Broken(
        "eagle3", lambda _: None, "P330", "`eagle3`", "says no", driven="dflash"
    ),
    "a head as a table": Broken("dspark", lambda _: None, "P330", "`mtp`", "says no", driven="mtp"),
    **{
        name: Broken("mtp", *row, target="qwen35")
        for name, row in {
            "a table without ids": (lambda g: g.drop("d2t"), "P305", "d2t", "says no"),
            "a table with a head": (
                lambda g: g.tensor("output.weight", (WIDTH, 3)),
                "P307",
                "output.weight",
                "takes",
            ),
            "a table with an id outside": (_ids(9, 999, 5), "P333", "token 999", "says no"),
            "a table with a negative id": (_ids(9, -1, 5), "P333", "token -1", "says no"),
            "a table with an id twice": (_ids(9, 2, 9), "P333", "twice", "takes"),
            "a table of 32 bits": (
                lambda g: g.tensor("d2t", type=TYPES["I32"], data=bytes(12)),
                "P333",
                "64-bit",
                "says no",
            ),
        }.items()
    },
    **{
        f"a target: {target}": Broken(kind, lambda _: None, code, mention, "dies", target=target)
        for target, kind, code, mention in (
            ("llama-layer-without-keys", "dflash", "P304", "head_count_kv` is 0"),
            ("llama-norms-of-16-bits", "eagle3", "P306", "output_norm.weight"),
            ("qwen35-nothing-turns", "mtp", "P304", "dimension_sections"),
            ("qwen35-too-much-turns", "mtp", "P304", "dimension_sections"),
            ("qwen35-another-state", "mtp", "P304", "ssm.inner_size"),
        )
    },
    "a table for no block": Broken(
        "mtp", lambda _: None, "P332", "0 native prediction blocks", "says no"
    ),
}
