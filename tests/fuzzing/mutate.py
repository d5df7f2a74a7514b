"""Wrong GGUFs that still look like models: one seed, some changes that each make sense alone.

A change is drawn by a `random.Random`, so that Hypothesis and a seeded run by hand
make the same ones. Each says what it did, in words that a bug report can hold.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from random import Random

import gguf

from power.artifact.architectures import DECODERS
from power.artifact.eog import CANDIDATES
from power.artifact.values import FORMATS, ValueType
from power.artifact.vocabulary import SPECIAL_NAMES
from tests.artifact.build import ARRAY, I32, I64, STRING, TYPES, U32, Gguf, array, number, text

SIZES = (
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    512,
    513,
)
EDGES = (1023, 1024, 4096, 65535, 65536, 2**24, 2**28, 2**31 - 1, 2**31, 2**32 - 1)
REALS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-30,
    1e-5,
    1e4,
    1e6,
    1e30,
    3.4e38,
    math.inf,
    -math.inf,
    math.nan,
)
WORDS = (
    *(
        "",
        "llama",
        "gpt2",
        "gemma4",
        "rwkv",
        "t5",
        "plamo2",
        "whitespace",
        "bert",
        "none",
        "linear",
    ),
    *("yarn", "longrope", "silu", "gelu", "model", "default", "qwen2", "llama-bpe", "x" * 70_000),
    *("{% for i in range(9) %}{{ i }}{% endfor %}", "{{", "\x1b[2J", "é", "<|im_end|>"),
)
SCALARS = (ValueType.UINT32, ValueType.INT32, ValueType.FLOAT32, ValueType.BOOL, ValueType.UINT64)
MODEL_KEYS = tuple(
    key
    for group in vars(gguf.constants.Keys).values()
    if isinstance(group, type)
    for key in vars(group).values()
    if isinstance(key, str) and not key.startswith("_") and "." in key
)
# Keys of the engine that the package above has no name for.
MORE_KEYS = tuple(
    "{arch}." + name
    for name in (
        *("attn_res.block_size", "attention.indexer.block_size", "attention.indexer.types"),
        *("attention.compress_ratios", "attention.output_group_count", "block_size", "num_loops"),
        *("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k", "ple.layers"),
        *("hyper_connection.count", "hash_layer_count", "kda.head_dim", "skip_loop_final_norm"),
        *("norm_before_fc", "norm_before_residual", "target_layers", "target_hidden_size"),
        *("has_confidence_head", "sample_from_anchor", "embedding_length_out", "pooling_type"),
        *("attention.sliding_window", "attention.sliding_window_pattern", "attention.causal"),
        *("rope.dimension_count_swa", "attention.key_length_swa", "attention.value_length_swa"),
        *("adapters.count", "hrm.h_cycles", "deepstack_mapping", "n_deepstack_layers"),
    )
)
TENSORS = (
    *(
        "token_embd.weight",
        "output.weight",
        "output.bias",
        "output_norm.weight",
        "output_norm.bias",
    ),
    *("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight", "d2t"),
    *("token_embd_norm.weight", "token_types.weight", "position_embd.weight", "cls.weight"),
    *("fc.weight", "fc.bias", "fc.scale", "enc.output_norm.weight", "conf_proj.weight"),
)
IN_BLOCK = (
    *("attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_qkv.weight", "attn_output.weight"),
    *("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_qkv.bias", "attn_output.bias"),
    *("attn_q.scale", "attn_q.input_scale", "attn_sinks.weight", "attn_rot_embd.weight"),
    *("attn_norm.weight", "attn_norm.bias", "ffn_norm.weight", "ffn_norm.bias", "ffn_gate.bias"),
    *("ffn_gate_inp.weight", "ffn_gate_exps.weight", "ffn_down_exps.weight", "ffn_up_exps.weight"),
    *(
        "ffn_gate_shexp.weight",
        "rope_freqs.weight",
        "rope_factors_long.weight",
        "ssm_a",
        "ssm_in.weight",
    ),
    *("nextn.eh_proj.weight", "nextn.embed_tokens.weight", "nextn.shared_head_head.weight"),
    *("nextn.shared_head_norm.weight", "layer_output_scale.weight", "post_attention_norm.weight"),
)

Change = Callable[[Random, Gguf], str | None]


def mutate(random: Random, gguf: Gguf, most: int = 3) -> list[str]:
    """Change `gguf` in place, one to `most` times; what was done."""
    done: list[str] = []
    for _ in range(random.randint(1, most)):
        change = random.choices(list(CHANGES), list(CHANGES.values()))[0]
        said = change(random, gguf)
        if said is not None:
            done.append(said)
    return done


def _arch(gguf: Gguf) -> str:
    for key, kind, raw in gguf.pairs:
        if key == "general.architecture" and kind == STRING:
            return raw[8:].decode("utf-8", "replace")
    return "llama"


def _pick(random: Random, gguf: Gguf) -> int | None:
    return random.randrange(len(gguf.pairs)) if gguf.pairs else None


def _scalar(random: Random, kind: ValueType) -> tuple[bytes, object]:
    if kind in {ValueType.FLOAT32, ValueType.FLOAT64}:
        value: float = random.choice(REALS)
    elif kind is ValueType.BOOL:
        value = random.choice((0, 0, 1, 1, 2))
    else:
        value = random.choice((*SIZES, *SIZES, *EDGES, -1, -2))
    width = struct.calcsize(FORMATS[kind])
    if kind in {ValueType.FLOAT32, ValueType.FLOAT64, ValueType.BOOL}:
        raw = number(kind, value) if kind is not ValueType.BOOL else bytes([int(value)])
    else:
        raw = (int(value) % (1 << 8 * width)).to_bytes(width, "little")
    return raw, value


def change_value(random: Random, gguf: Gguf) -> str | None:
    """Another value of the same type."""
    at = _pick(random, gguf)
    if at is None:
        return None
    key, kind, old = gguf.pairs[at]
    if kind == ARRAY:
        return change_array(random, gguf, at)
    if kind == STRING:
        word = random.choice((*WORDS, old[8:-1].decode("utf-8", "replace")))
        gguf.pairs[at] = (key, kind, text(word))
        return f"{key!r} = {word[:20]!r}"
    raw, value = _scalar(random, ValueType(kind))
    if random.random() < 0.5 and kind not in {ValueType.FLOAT32, ValueType.BOOL}:
        value = int.from_bytes(old, "little") + random.choice((-2, -1, 1, 2))
        raw = (value % (1 << 8 * len(old))).to_bytes(len(old), "little")
    gguf.pairs[at] = (key, kind, raw)
    return f"{key!r} = {value!r}"


def change_array(random: Random, gguf: Gguf, at: int | None = None) -> str | None:
    """Another length, or another item, of an array."""
    if at is None:
        arrays = [i for i, pair in enumerate(gguf.pairs) if pair[1] == ARRAY]
        if not arrays:
            return None
        at = random.choice(arrays)
    key, kind, raw = gguf.pairs[at]
    item, count = struct.unpack_from("<IQ", raw)
    if item == STRING:
        items, spot = [], 12
        for _ in range(count):
            (length,) = struct.unpack_from("<Q", raw, spot)
            items.append(raw[spot + 8 : spot + 8 + length])
            spot += 8 + length
        said = _change_strings(random, items)
        gguf.pairs[at] = (key, kind, array(STRING, items))
        return f"{key!r}: {said}"
    if item not in set(ValueType) or item == ARRAY:
        return None
    code = FORMATS[ValueType(item)]
    values = list(struct.unpack_from(f"<{count}{code}", raw, 12))
    said = _change_numbers(random, values, ValueType(item))
    try:
        gguf.pairs[at] = (key, kind, array(ValueType(item), values))
    except struct.error:
        return None
    return f"{key!r}: {said}"


def _change_strings(random: Random, items: list[bytes]) -> str:
    what = random.choice(
        ("drop", "double", "empty", "copy", "long", "end", "word", "bytes", "none")
    )
    if not items or what == "none":
        del items[:]
        return "no items"
    at = random.randrange(len(items))
    if what == "drop":
        del items[at]
    elif what == "double":
        items.append(items[at])
    else:
        items[at] = {
            "empty": b"",
            "copy": random.choice(items),
            "long": b"y" * 5000,
            "end": random.choice(sorted(CANDIDATES)),
            "word": random.choice(WORDS).encode(),
            "bytes": bytes(random.randrange(256) for _ in range(3)),
        }[what]
    return f"item {at}: {what}"


def _change_numbers(random: Random, values: list[float], kind: ValueType) -> str:
    what = random.choice(("drop", "double", "set", "set", "step", "none", "all"))
    if not values or what == "none":
        del values[:]
        return "no items"
    at = random.randrange(len(values))
    if what == "drop":
        del values[at]
    elif what == "double":
        values.append(values[at])
    elif what == "step":
        values[at] += random.choice((-1, 1))
    else:
        raw, _ = _scalar(random, kind)
        (value,) = struct.unpack("<" + FORMATS[kind], raw)
        for index in range(len(values)) if what == "all" else (at,):
            values[index] = value
    return f"item {at}: {what} -> {values[: at + 1][-1:]}"


def change_type(random: Random, gguf: Gguf) -> str | None:
    """A scalar of another type."""
    at = _pick(random, gguf)
    if at is None:
        return None
    key = gguf.pairs[at][0]
    kind = random.choice((*SCALARS, STRING, ARRAY))
    if kind is STRING:
        gguf.pairs[at] = (key, kind, text(random.choice(WORDS)))
    elif kind is ARRAY:
        inner = random.choice(SCALARS[:4])
        count = random.choice((0, 1, 2, 3, 600))
        body = b"".join(_scalar(random, inner)[0] for _ in range(count))
        gguf.pairs[at] = (key, ARRAY, struct.pack("<IQ", inner, count) + body)
    else:
        gguf.pairs[at] = (key, kind, _scalar(random, kind)[0])
    return f"{key!r} is {kind.name}"


def drop_key(random: Random, gguf: Gguf) -> str | None:
    at = _pick(random, gguf)
    if at is None:
        return None
    key = gguf.pairs.pop(at)[0]
    return f"no {key!r}"


def add_key(random: Random, gguf: Gguf) -> str:
    """A key that the engine knows, with some value."""
    arch = _arch(gguf)
    name = random.choice((*MODEL_KEYS, *MORE_KEYS, *MORE_KEYS)).replace("{arch}", arch)
    if random.random() < 0.15:
        name = f"tokenizer.ggml.{random.choice(SPECIAL_NAMES)}_token_id"
    kind = random.choice(SCALARS)
    if random.random() < 0.2:
        count = random.choice((1, 2, 3, 4, 8))
        body = b"".join(_scalar(random, kind)[0] for _ in range(count))
        gguf.raw(name, ARRAY, struct.pack("<IQ", kind, count) + body)
        return f"{name} = {count} of {kind.name}"
    raw, value = _scalar(random, kind)
    gguf.raw(name, kind, raw)
    return f"{name} = {kind.name} {value!r}"


def rename_architecture(random: Random, gguf: Gguf) -> str:
    """Another architecture, with its keys renamed along."""
    old, new = _arch(gguf), random.choice(sorted(DECODERS))
    gguf.pairs = [
        (key.replace(f"{old}.", f"{new}.", 1) if isinstance(key, str) else key, kind, raw)
        for key, kind, raw in gguf.pairs
    ]
    gguf.put("general.architecture", STRING, new)
    return f"architecture {new}"


def resize_tensor(random: Random, gguf: Gguf) -> str | None:
    if not gguf.tensors:
        return None
    tensor = random.choice(gguf.tensors)
    shape = list(tensor.shape)
    what = random.choice(("step", "double", "halve", "swap", "one", "flat", "size"))
    axis = random.randrange(len(shape))
    if what == "step":
        shape[axis] += random.choice((-1, 1))
    elif what == "double":
        shape[axis] *= 2
    elif what == "halve":
        shape[axis] = max(1, shape[axis] // 2)
    elif what == "swap":
        shape.reverse()
    elif what == "one":
        shape.append(random.choice((1, 2)))
    elif what == "flat":
        shape = [math.prod(shape)]
    else:
        shape[axis] = random.choice(SIZES)
    tensor.shape, tensor.data = tuple(shape[:4]), None
    return f"{tensor.name!r} is {tensor.shape}"


def retype_tensor(random: Random, gguf: Gguf) -> str | None:
    if not gguf.tensors:
        return None
    tensor = random.choice(gguf.tensors)
    name, tensor.type = random.choice(sorted(TYPES.items()))
    tensor.data = None
    return f"{tensor.name!r} is {name}"


def refill_tensor(random: Random, gguf: Gguf) -> str | None:
    """Other numbers: NaN, infinity, noise, large ids."""
    if not gguf.tensors:
        return None
    tensor = random.choice(gguf.tensors)
    unit = random.choice(
        (b"\xff", b"\x7f", struct.pack("<f", math.inf), random.randbytes(64), b"\x01\0")
    )
    size = max(1, tensor.size)
    tensor.data = (unit * (size // len(unit) + 1))[: tensor.size]
    return f"{tensor.name!r} of {unit[:4].hex()}"


def drop_tensor(random: Random, gguf: Gguf) -> str | None:
    if not gguf.tensors:
        return None
    tensor = gguf.tensors.pop(random.randrange(len(gguf.tensors)))
    return f"no tensor {tensor.name!r}"


def add_tensor(random: Random, gguf: Gguf) -> str:
    name = random.choice(TENSORS)
    if random.random() < 0.7:
        name = f"blk.{random.choice((0, 0, 1, 2, 3, 99, 1000))}.{random.choice(IN_BLOCK)}"
    like = random.choice(gguf.tensors).shape if gguf.tensors else (32,)
    gguf.tensor(name, like)
    return f"tensor {name} of {like}"


def rename_tensor(random: Random, gguf: Gguf) -> str | None:
    if not gguf.tensors:
        return None
    tensor = random.choice(gguf.tensors)
    old, tensor.name = tensor.name, random.choice((*TENSORS, f"blk.0.{random.choice(IN_BLOCK)}"))
    return f"tensor {old!r} is {tensor.name!r}"


def change_table(random: Random, gguf: Gguf) -> str:
    """A `d2t` of other ids or another type."""
    ids = [
        random.choice((0, 1, 2, 3, 5, 30, 31, 32, -1, 2**40))
        for _ in range(random.choice((1, 2, 4)))
    ]
    kind = random.choice((I64, I64, I64, I32))
    gguf.tensor("d2t", (len(ids),), type=TYPES[kind.name.replace("INT", "I")], data=None)
    if kind is I64:
        gguf.tensor("d2t", data=struct.pack(f"<{len(ids)}q", *ids))
    if random.random() < 0.7:
        width = gguf.tensors[0].shape[0] if gguf.tensors else 32
        gguf.tensor("output.weight", (width, len(ids)))
    return f"d2t = {ids}"


def change_frame(random: Random, gguf: Gguf) -> str:
    """Counts, version, alignment, tail: the container itself."""
    what = random.choice(("pairs", "tensors", "version", "alignment", "tail", "offset", "dup"))
    if what == "pairs":
        gguf.pair_count = len(gguf.pairs) + random.choice((-1, 1, 2**40))
    elif what == "tensors":
        gguf.tensor_count = max(0, len(gguf.tensors) + random.choice((-1, 1, 2**40)))
    elif what == "version":
        gguf.version = struct.pack("<I", random.choice((0, 1, 2, 4, 2**31)))
    elif what == "alignment":
        gguf.put("general.alignment", U32, random.choice((0, 1, 8, 31, 64, 2**31)))
    elif what == "tail":
        gguf.tail = random.randbytes(random.choice((1, 31, 32, 33)))
    elif gguf.tensors and what == "offset":
        random.choice(gguf.tensors).offset = random.choice((0, 1, 32, 2**40))
    elif gguf.pairs:
        gguf.pairs.append(random.choice(gguf.pairs))
    return f"frame: {what}"


CHANGES: dict[Change, int] = {
    change_value: 30,
    change_array: 12,
    change_type: 5,
    drop_key: 6,
    add_key: 22,
    rename_architecture: 3,
    resize_tensor: 8,
    retype_tensor: 8,
    refill_tensor: 4,
    drop_tensor: 3,
    add_tensor: 8,
    rename_tensor: 3,
    change_table: 4,
    change_frame: 2,
}
