"""The hyperparameters of a model, checked for everything the engine would stumble over.

Each limit is one of llama.cpp's (src/llama-hparams.h, `load_hparams` in
src/llama-model.cpp) or a bound far above any real model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from power.artifact.architectures import (
    ATTENTION_FREE,
    EXPERTS_ONLY,
    FULL_ROTATION,
    SECTIONED,
    TWICE_AS_WIDE_INSIDE,
)
from power.artifact.reader import Reader
from power.artifact.values import REALS, ValueType

MAX_LAYERS = 512  # LLAMA_MAX_LAYERS
MAX_EXPERTS = 1024  # LLAMA_MAX_EXPERTS
_MAX_CONTEXT = 1 << 28
_MAX_WIDTH = 1 << 20
_MAX_FEED_FORWARD = 1 << 24
_MAX_HEADS = 1 << 16
# No layer goes without attention: a 0 among the heads ends the process.
_ATTENTIVE = frozenset({"llama", "qwen2", "qwen3", "gemma3", "dflash", "eagle3"})
# Shapes of tensors come from the first layer's heads, and a graph from each layer's own.
_EVEN = frozenset({"qwen2", "qwen3", "gemma3"})
_SCALINGS = ("none", "linear", "yarn", "longrope")  # llama_rope_scaling_type_from_string


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes of a model. `heads`, `kv_heads` and `feed_forward` are lists when layers differ.

    `layers` counts every block, the `nextn` prediction blocks at the end included.
    """

    architecture: str
    context: int
    width: int
    layers: int
    nextn: int
    feed_forward: int | list[int] | None
    heads: int | list[int] | None
    kv_heads: int | list[int] | None
    key_length: int
    value_length: int
    experts: int

    @property
    def uniform(self) -> bool:
        """Whether every layer has the same sizes and there are no experts."""
        sizes = (self.feed_forward, self.heads, self.kv_heads)
        return self.experts == 0 and all(isinstance(size, int) for size in sizes)


def read_dimensions(reader: Reader, architecture: str) -> Dimensions | None:
    """Check and collect the hyperparameters; None (and findings) when they cannot be used."""
    before = len(reader.findings)
    prefix = f"{architecture}."
    context = reader.integer(prefix + "context_length", 1, _MAX_CONTEXT, required=True)
    width = reader.integer(prefix + "embedding_length", 1, _MAX_WIDTH, required=True)
    layers = reader.integer(prefix + "block_count", 1, MAX_LAYERS, required=True)
    nextn = reader.integer(prefix + "nextn_predict_layers", 0, MAX_LAYERS, default=0)
    feed_forward = reader.per_layer(prefix + "feed_forward_length", 0, _MAX_FEED_FORWARD)
    heads, kv_heads = _heads(reader, architecture)
    experts = _experts(reader, prefix, needed=architecture in EXPERTS_ONLY)
    key_length, value_length = _head_lengths(reader, prefix, width, heads)
    _rope(reader, architecture, key_length)
    if architecture in TWICE_AS_WIDE_INSIDE and width is not None:
        _inner_size(reader, prefix, width)
    _norms(reader, prefix)
    _finite(reader, prefix)
    if layers is not None and nextn is not None and nextn > layers:
        key = prefix + "nextn_predict_layers"
        reader.out_of_range(
            key, f"`{key}` is larger than the block count", expected=f"<= {layers}", found=nextn
        )
    if len(reader.findings) > before or context is None or width is None or layers is None:
        return None
    return Dimensions(
        architecture,
        context,
        width,
        layers,
        nextn or 0,
        feed_forward,
        heads,
        kv_heads,
        key_length,
        value_length,
        experts,
    )


_PerLayer = int | list[int] | None


def _heads(reader: Reader, architecture: str) -> tuple[_PerLayer, _PerLayer]:
    key = f"{architecture}.attention.head_count"
    # Hybrid models write 0 for layers without attention, but only in an array.
    low = 1 if architecture in _ATTENTIVE or not _is_array(reader, key) else 0
    if architecture in ATTENTION_FREE:
        return reader.per_layer(key, 0, _MAX_HEADS), reader.per_layer(key + "_kv", 0, _MAX_HEADS)
    heads = reader.per_layer(key, low, _MAX_HEADS, required=True)
    low = 1 if architecture in _ATTENTIVE or not _is_array(reader, key + "_kv") else 0
    kv_heads = reader.per_layer(key + "_kv", low, _MAX_HEADS)
    if architecture in _EVEN:
        _one_for_all(reader, {key: heads, f"{key}_kv": kv_heads})
    if kv_heads is None:
        return heads, heads
    for head, kv_head in zip(_spread(heads), _spread(kv_heads), strict=False):
        if kv_head and head % kv_head:
            reader.out_of_range(
                key + "_kv",
                f"`{key}` {head} is no multiple of `{key}_kv` {kv_head}",
                expected=f"a divisor of {head}",
                found=kv_head,
            )
            break
    return heads, kv_heads


def _one_for_all(reader: Reader, found: dict[str, _PerLayer]) -> None:
    """Find heads that differ by layer: the engine takes the tensors' shapes from the first one."""
    for key, heads in found.items():
        if isinstance(heads, list) and len(set(heads)) > 1:
            reader.out_of_range(
                key,
                f"`{key}` differs by layer, and this architecture has one for all of them",
                expected=heads[0],
                found=next(count for count in heads if count != heads[0]),
            )


def _is_array(reader: Reader, key: str) -> bool:
    value = reader.header.values.get(key)
    return value is not None and value.type is ValueType.ARRAY


def _spread(value: _PerLayer) -> list[int]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value] * MAX_LAYERS


def _experts(reader: Reader, prefix: str, *, needed: bool) -> int:
    least = 1 if needed else 0
    count_key = prefix + "expert_count"
    count = reader.integer(count_key, least, MAX_EXPERTS, required=needed, default=0) or 0
    used_key = prefix + "expert_used_count"
    used = reader.per_layer(used_key, 0, MAX_EXPERTS)
    most = max(_spread(used), default=0)
    if count and not most and used_key not in reader.header.values:
        reader.missing(used_key)
    elif (count > 0) != (most > 0) or most > count:
        reader.out_of_range(
            used_key,
            f"`{used_key}` does not fit `{prefix}expert_count`",
            expected=f"1 to {count}" if count else "0 without experts",
            found=most,
        )
    _expert_groups(reader, prefix, count)
    return count


def _expert_groups(reader: Reader, prefix: str, experts: int) -> None:
    key = prefix + "expert_group_count"
    groups = reader.integer(key, 0, MAX_EXPERTS, default=0) or 0
    used = reader.integer(prefix + "expert_group_used_count", 0, MAX_EXPERTS, default=0) or 0
    if groups == 0:
        return
    if groups >= max(experts, 1) or (groups > 1 and (experts % groups or not 0 < used < groups)):
        reader.out_of_range(
            key,
            f"`{key}` does not divide the experts",
            expected=f"a divisor of {experts}, with fewer groups used than there are",
            found=f"{groups} groups, {used} used",
        )


def _head_lengths(
    reader: Reader, prefix: str, width: int | None, heads: _PerLayer
) -> tuple[int, int]:
    most = max(_spread(heads), default=0)
    default = (width or 0) // most if most else 0
    key = reader.integer(prefix + "attention.key_length", 1, _MAX_WIDTH, default=default)
    value = reader.integer(prefix + "attention.value_length", 1, _MAX_WIDTH, default=default)
    return key or default, value or default


def _rope(reader: Reader, architecture: str, key_length: int) -> None:
    prefix = f"{architecture}.rope."
    reader.real(prefix + "freq_base", 1e-3, 1e12)
    reader.real(prefix + "freq_base_swa", 1e-3, 1e12)
    reader.real(prefix + "scaling.factor", 0.0, 1e6)
    reader.real(prefix + "scale_linear", 0.0, 1e6)
    scaling = reader.text(prefix + "scaling.type")
    if scaling is not None and scaling not in _SCALINGS:
        key = prefix + "scaling.type"
        reader.out_of_range(
            key, f"`{key}` is unknown", expected=", ".join(_SCALINGS), found=scaling
        )
    _sections(reader, architecture, key_length)
    key = prefix + "dimension_count"
    rotated = reader.integer(key, 0, _MAX_WIDTH)
    if rotated is None or not key_length:
        return
    exact = architecture in FULL_ROTATION
    if rotated % 2 or rotated > key_length or (exact and rotated != key_length):
        reader.out_of_range(
            key,
            f"`{key}` is {rotated} with heads of {key_length}",
            expected=key_length if exact else f"an even number up to {key_length}",
            found=rotated,
        )


def _sections(reader: Reader, architecture: str, key_length: int) -> None:
    key = f"{architecture}.rope.dimension_sections"
    needed = architecture in SECTIONED
    if needed or key in reader.header.values:
        sections = reader.integers(key, required=needed)
        if sections is None:
            return
        fits = min(sections, default=-1) >= 0 and sum(sections) <= max(key_length, 1)
        if not fits or (needed and not any(sections[:3])):
            reader.out_of_range(
                key,
                f"`{key}` are no parts of a head to rotate",
                expected=f"four integers from 0, at most {key_length} together, "
                "one of the first three above 0",
                found=sections,
            )


def _inner_size(reader: Reader, prefix: str, width: int) -> None:
    key = prefix + "ssm.inner_size"
    inner = reader.integer(key, 1, 2 * _MAX_WIDTH, required=True)
    if inner is not None and inner != 2 * width:
        message = f"`{key}` is not twice the embedding length"
        reader.out_of_range(key, message, expected=2 * width, found=inner)


def _norms(reader: Reader, prefix: str) -> None:
    for name in ("layer_norm_rms_epsilon", "layer_norm_epsilon", "group_norm_epsilon"):
        reader.real(f"{prefix}attention.{name}", 0.0, 1.0)


def _finite(reader: Reader, prefix: str) -> None:
    """No other float of the architecture may be NaN or infinite."""
    for key, value in reader.header.values.items():
        if not key.startswith(prefix):
            continue
        if value.type in REALS and isinstance(value.data, float) and not math.isfinite(value.data):
            already = key.endswith(("freq_base", "freq_base_swa", "factor", "linear", "epsilon"))
            if not already:
                reader.out_of_range(
                    key, f"`{key}` is {value.data}", expected="a finite number", found=value.data
                )
