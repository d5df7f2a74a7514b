"""A GGUF writer that can write what no converter would: every field can be made wrong."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from power.artifact.ggml import TENSOR_TYPES
from power.artifact.values import FORMATS, ValueType

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = ValueType
TYPES = {kind.name: number for number, kind in TENSOR_TYPES.items()}


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def number(kind: ValueType, value: float) -> bytes:
    return struct.pack("<" + FORMATS[kind], value)


def array(item: ValueType, values: Sequence[Any]) -> bytes:
    if item is STRING:
        body = b"".join(map(text, values))
    else:
        body = struct.pack(f"<{len(values)}{FORMATS[item]}", *values)
    return struct.pack("<IQ", item, len(values)) + body


@dataclass
class Tensor:
    name: str | bytes
    shape: tuple[int, ...]
    type: int = 0
    data: bytes | None = None
    offset: int | None = None

    @property
    def size(self) -> int:
        kind = TENSOR_TYPES.get(self.type, TENSOR_TYPES[0])
        count = 1
        for dimension in self.shape:
            count *= dimension
        return min(count * kind.bytes // kind.block, 16 << 20)


@dataclass
class Gguf:
    """Pairs are (key, value type, encoded value); everything else is derived unless it is set."""

    pairs: list[tuple[str | bytes, int, bytes]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    alignment: int = 32
    magic: bytes = b"GGUF"
    version: bytes = struct.pack("<I", 3)
    tensor_count: int | None = None
    pair_count: int | None = None
    tail: bytes = b""

    def put(self, key: str, kind: ValueType, value: Any) -> Self:
        """Set a scalar or string; None removes the key."""
        raw = text(value) if kind is STRING else b"" if value is None else number(kind, value)
        return self.raw(key, kind, None if value is None else raw)

    def put_array(self, key: str, item: ValueType, values: Sequence[Any]) -> Self:
        return self.raw(key, ARRAY, array(item, values))

    def raw(self, key: str, kind: int, value: bytes | None) -> Self:
        """Set a key to bytes as they are, at its place if it has one."""
        keys = [pair[0] for pair in self.pairs]
        new = [] if value is None else [(key, kind, value)]
        if key in keys:
            at = keys.index(key)
            self.pairs[at : at + 1] = new
        else:
            self.pairs += new
        return self

    def drop(self, *names: str | bytes) -> Self:
        """Remove keys and tensors."""
        self.pairs = [pair for pair in self.pairs if pair[0] not in names]
        self.tensors = [tensor for tensor in self.tensors if tensor.name not in names]
        return self

    def tensor(self, name: str, shape: tuple[int, ...] = (), **changes: Any) -> Self:
        """Add a tensor, or change the one with this name."""
        for at, old in enumerate(self.tensors):
            if old.name == name:
                self.tensors[at] = replace(old, shape=shape or old.shape, **changes)
                return self
        self.tensors.append(Tensor(name, shape, **changes))
        return self

    def header(self) -> bytes:
        out = [self.magic, self.version]
        out.append(struct.pack("<Q", _or(self.tensor_count, len(self.tensors))))
        out.append(struct.pack("<Q", _or(self.pair_count, len(self.pairs))))
        for key, kind, value in self.pairs:
            out += [text(key), struct.pack("<I", kind), value]
        at = 0
        for tensor in self.tensors:
            out += [text(tensor.name), struct.pack("<I", len(tensor.shape))]
            out.append(struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape))
            out.append(struct.pack("<IQ", tensor.type, _or(tensor.offset, at)))
            at += -(-tensor.size // self.alignment) * self.alignment
        return b"".join(out)

    def encode(self) -> bytes:
        out = bytearray(self.header())
        for tensor in self.tensors:
            out += bytes(-len(out) % self.alignment)
            out += tensor.data if tensor.data is not None else bytes(tensor.size)
        if self.tensors:
            out += bytes(-len(out) % self.alignment)
        return bytes(out) + self.tail


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


TOKENS = [
    *("<unk>", "<s>", "</s>", "<mask>"),
    *(f"<0x{byte:02X}>" for byte in range(256)),
    *(f"word{index}" for index in range(12)),
]
WIDTH, INNER, HEADS, HEAD = 32, 64, 4, 8


def tokenizer(gguf: Gguf, tokens: Sequence[str | bytes] = TOKENS, *, mask: bool = False) -> Gguf:
    """An SPM tokenizer of `tokens`."""
    count = len(tokens)
    gguf.put("tokenizer.ggml.model", STRING, "llama").put("tokenizer.ggml.pre", STRING, "default")
    gguf.put_array("tokenizer.ggml.tokens", STRING, tokens)
    gguf.put_array("tokenizer.ggml.scores", F32, [-float(index) for index in range(count)])
    gguf.put_array("tokenizer.ggml.token_type", I32, ([2, 3, 3, 3] + [1] * count)[:count])
    gguf.put("tokenizer.ggml.bos_token_id", U32, 1).put("tokenizer.ggml.eos_token_id", U32, 2)
    if mask:
        gguf.put("tokenizer.ggml.mask_token_id", U32, 3)
    return gguf.put("tokenizer.ggml.add_bos_token", BOOL, 0)


def sizes(gguf: Gguf, arch: str, blocks: int, *, heads: int = HEADS, head: int = HEAD) -> Gguf:
    """The hyperparameters every architecture has."""
    gguf.put("general.architecture", STRING, arch).put("general.file_type", U32, 0)
    for key, value in (
        ("context_length", 128),
        ("embedding_length", WIDTH),
        ("block_count", blocks),
        ("feed_forward_length", INNER),
        ("attention.head_count", heads),
        ("attention.head_count_kv", heads),
        ("attention.key_length", head),
        ("attention.value_length", head),
    ):
        gguf.put(f"{arch}.{key}", U32, value)
    gguf.put(f"{arch}.attention.layer_norm_rms_epsilon", F32, 1e-5)
    return gguf.put(f"{arch}.rope.freq_base", F32, 10000.0)


def attention(gguf: Gguf, block: int, inputs: int = WIDTH, query: int = 1) -> None:
    inner = HEADS * HEAD
    gguf.tensor(f"blk.{block}.attn_q.weight", (inputs, inner * query))
    gguf.tensor(f"blk.{block}.attn_k.weight", (inputs, inner))
    gguf.tensor(f"blk.{block}.attn_v.weight", (inputs, inner))
    gguf.tensor(f"blk.{block}.attn_output.weight", (inner, WIDTH))


def feed_forward(gguf: Gguf, block: int) -> None:
    gguf.tensor(f"blk.{block}.ffn_gate.weight", (WIDTH, INNER))
    gguf.tensor(f"blk.{block}.ffn_up.weight", (WIDTH, INNER))
    gguf.tensor(f"blk.{block}.ffn_down.weight", (INNER, WIDTH))


def vectors(gguf: Gguf, block: int, *names: str, length: int = WIDTH) -> None:
    for name in names:
        gguf.tensor(f"blk.{block}.{name}.weight", (length,))


def llama(blocks: int = 3) -> Gguf:
    """A whole llama model, its tensors all zero."""
    gguf = tokenizer(sizes(Gguf(), "llama", blocks))
    gguf.put("llama.rope.dimension_count", U32, HEAD)
    gguf.tensor("token_embd.weight", (WIDTH, len(TOKENS))).tensor("output_norm.weight", (WIDTH,))
    for block in range(blocks):
        vectors(gguf, block, "attn_norm", "ffn_norm")
        attention(gguf, block)
        feed_forward(gguf, block)
    return gguf


def qwen(version: int = 3) -> Gguf:
    """A whole qwen2 or qwen3 model: biases of the projections, or norms of the heads."""
    gguf = tokenizer(sizes(Gguf(), f"qwen{version}", 2))
    gguf.tensor("token_embd.weight", (WIDTH, len(TOKENS))).tensor("output_norm.weight", (WIDTH,))
    for block in range(2):
        vectors(gguf, block, "attn_norm", "ffn_norm")
        attention(gguf, block)
        feed_forward(gguf, block)
        if version == 3:
            vectors(gguf, block, "attn_q_norm", "attn_k_norm", length=HEAD)
            continue
        for part in "qkv":
            gguf.tensor(f"blk.{block}.attn_{part}.bias", (HEADS * HEAD,))
    return gguf


def gemma3() -> Gguf:
    """A whole gemma3 model of two blocks."""
    gguf = tokenizer(sizes(Gguf(), "gemma3", 2))
    gguf.tensor("token_embd.weight", (WIDTH, len(TOKENS))).tensor("output_norm.weight", (WIDTH,))
    for block in range(2):
        vectors(gguf, block, "attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")
        vectors(gguf, block, "attn_q_norm", "attn_k_norm", length=HEAD)
        attention(gguf, block)
        feed_forward(gguf, block)
    return gguf


def qwen35(nextn: int = 1) -> Gguf:
    """A hybrid of one recurrent and one attention block, with native prediction blocks."""
    gguf = tokenizer(sizes(Gguf(), "qwen35", 2 + nextn))
    for name, value in (
        ("conv_kernel", 4),
        ("state_size", 8),
        ("time_step_rank", 2),
        ("group_count", 1),
        ("inner_size", 16),
    ):
        gguf.put(f"qwen35.ssm.{name}", U32, value)
    gguf.put_array("qwen35.rope.dimension_sections", I32, [2, 1, 1, 0])
    gguf.put("qwen35.full_attention_interval", U32, 2)
    gguf.put("qwen35.nextn_predict_layers", U32, nextn)
    gguf.tensor("token_embd.weight", (WIDTH, len(TOKENS))).tensor("output_norm.weight", (WIDTH,))
    for block in range(2 + nextn):
        vectors(gguf, block, "attn_norm", "post_attention_norm")
        feed_forward(gguf, block)
        if block == 0:
            _delta_net(gguf)
            continue
        attention(gguf, block, query=2)
        vectors(gguf, block, "attn_q_norm", "attn_k_norm", length=HEAD)
        if block >= 2:
            gguf.tensor(f"blk.{block}.nextn.eh_proj.weight", (2 * WIDTH, WIDTH))
            vectors(gguf, block, "nextn.enorm", "nextn.hnorm")
    return gguf


def _delta_net(gguf: Gguf) -> None:
    gguf.tensor("blk.0.attn_qkv.weight", (WIDTH, 32)).tensor("blk.0.attn_gate.weight", (WIDTH, 16))
    gguf.tensor("blk.0.ssm_conv1d.weight", (4, 32)).tensor("blk.0.ssm_dt.bias", (2,))
    gguf.tensor("blk.0.ssm_a", (2,)).tensor("blk.0.ssm_beta.weight", (WIDTH, 2))
    gguf.tensor("blk.0.ssm_alpha.weight", (WIDTH, 2)).tensor("blk.0.ssm_norm.weight", (8,))
    gguf.tensor("blk.0.ssm_out.weight", (16, WIDTH))


def native_table(ids: Sequence[int]) -> Gguf:
    """A table of the head of a native prediction block: no model, nothing else in it."""
    gguf = Gguf().put("general.architecture", STRING, "mtp-head")
    return gguf.tensor("d2t", (len(ids),), type=TYPES["I64"], data=ids_of(ids))


def ids_of(ids: Sequence[int]) -> bytes:
    """The content of an I64 tensor."""
    return struct.pack(f"<{len(ids)}q", *ids)


def eagle3() -> Gguf:
    """An EAGLE-3 head for `llama()` that borrows embeddings and head."""
    gguf = tokenizer(sizes(Gguf(), "eagle3", 1))
    gguf.put_array("eagle3.target_layers", I32, [0, 1, 2])
    gguf.put("eagle3.target_hidden_size", U32, WIDTH)
    gguf.tensor("fc.weight", (3 * WIDTH, WIDTH)).tensor("output_norm.weight", (WIDTH,))
    vectors(gguf, 0, "attn_norm", "attn_norm_2", "ffn_norm")
    attention(gguf, 0, inputs=2 * WIDTH)
    feed_forward(gguf, 0)
    return gguf


def dflash() -> Gguf:
    """A DFlash head for `llama()` over two layers, with blocks of 8."""
    gguf = tokenizer(sizes(Gguf(), "dflash", 1), mask=True)
    gguf.put("dflash.block_size", U32, 8).put_array("dflash.target_layers", I32, [0, 2])
    gguf.tensor("fc.weight", (2 * WIDTH, WIDTH)).tensor("enc.output_norm.weight", (WIDTH,))
    gguf.tensor("output_norm.weight", (WIDTH,))
    vectors(gguf, 0, "attn_norm", "ffn_norm")
    vectors(gguf, 0, "attn_q_norm", "attn_k_norm", length=HEAD)
    attention(gguf, 0)
    feed_forward(gguf, 0)
    return gguf


def dspark() -> Gguf:
    """`dflash()` with a Markov head of rank 4 and a confidence head."""
    gguf = dflash().put("dflash.has_confidence_head", BOOL, 1)
    gguf.tensor("markov_w1.weight", (4, len(TOKENS))).tensor("markov_w2.weight", (4, len(TOKENS)))
    return gguf.tensor("conf_proj.weight", (WIDTH + 4, 1)).tensor("conf_proj.bias", (1,))


def dflash2() -> Gguf:
    """`dflash()` with convolutions of 3 over groups of 8 and a selector of rank 4, 5 candidates."""
    gguf = dflash()
    for key, value in (
        ("conv_kernel_size", 3),
        ("conv_group_size", 8),
        ("selector_rank", 4),
        ("selector_top_k", 5),
    ):
        gguf.put(f"dflash.{key}", U32, value)
    gguf.tensor("selector_predecessor.weight", (4, len(TOKENS)))
    gguf.tensor("selector_successor.weight", (4, len(TOKENS)))
    gguf.tensor("selector_hidden.weight", (WIDTH, 4))
    for part in ("attn", "ffn"):
        gguf.tensor(f"blk.0.{part}_conv_base", (WIDTH, 3, 2))
        gguf.tensor(f"blk.0.{part}_conv_proj.weight", (WIDTH, 24))
    return gguf


def reduced(gguf: Gguf, ids: Sequence[int]) -> Gguf:
    """Give a draft a head of its own for the tokens `ids`."""
    gguf.tensor("output.weight", (WIDTH, len(ids)))
    return gguf.tensor("d2t", (len(ids),), type=TYPES["I64"], data=ids_of(ids))
