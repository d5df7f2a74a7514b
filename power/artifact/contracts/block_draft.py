"""What DFlash, DFlash2 and DSpark share: blocks of tokens drafted at once over target features.

Source: llama.cpp, src/models/dflash.cpp. The backbone of DeepSeek-V4 drafts
(hyper-connections) is not among what is accepted.
"""

from __future__ import annotations

from collections.abc import Collection

from power.artifact.contracts.common import FeatureDraft, Target, shared_head
from power.artifact.dimensions import Dimensions
from power.artifact.header import Header
from power.artifact.layouts import Layout, attention, feed_forward, vectors

MAX_BLOCK = 1 << 10
_KEYS = frozenset(
    """
    block_size attention.causal attention.scale attention.value_scale attention.sliding_window
    attention.sliding_window_pattern embedding_scale logit_scale final_logit_softcapping
    hidden_activation
    """.split()  # noqa: SIM905 - a table of names reads better than a list of quotes
)
_ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh")


def judge(
    draft: Header, target: Target | None, keys: Collection[str], smallest_block: int
) -> tuple[FeatureDraft, int | None]:
    """Check everything but the kind's own tensors; the judgement so far and the block size."""
    judged = FeatureDraft(draft, target, "dflash")
    judged.check_reduced_head()
    judged.check_keys(_KEYS.union(keys))
    judged.check_layers()
    block = judged.reader.integer("dflash.block_size", smallest_block, MAX_BLOCK, required=True)
    _check_activation(judged)
    _check_mask_token(judged)
    if judged.dimensions is not None:
        judged.check_width("dflash.embedding_length", judged.dimensions.width)
        _check_attention(judged, judged.dimensions)
    return judged, block


def check_tensors(judged: FeatureDraft, required: Layout, optional: Layout) -> None:
    """Check the common tensors and the kind's own, and that there are no others."""
    d, vocabulary = judged.dimensions, judged.vocabulary
    if d is None or vocabulary is None or judged.layers is None or not d.uniform:
        return
    needed: Layout = {
        "fc.weight": (len(judged.layers) * d.width, d.width),
        "enc.output_norm.weight": (d.width,),
        "output_norm.weight": (d.width,),
    }
    allowed: Layout = {"fc.scale": (1,), "rope_freqs.weight": (d.key_length // 2,)}
    allowed |= shared_head(len(vocabulary), d.width, judged.head_rows)
    for block in range(d.layers):
        projections = attention(judged.header, block, d.width, d)
        value = f"blk.{block}.attn_v.weight"
        if value in projections:
            allowed[value] = projections.pop(value)
        needed |= projections
        needed |= feed_forward(block, d)
        needed |= vectors(block, d.width, ("attn_norm", "ffn_norm"))
        needed |= vectors(block, d.key_length, ("attn_q_norm", "attn_k_norm"))
        allowed |= vectors(block, d.width, ("post_attention_norm", "post_ffw_norm"))
        allowed |= vectors(block, 1, ("layer_output_scale",))
        if isinstance(d.heads, int):
            allowed |= vectors(block, d.heads, ("attn_sinks",))
    judged.check_tensors(needed | required, allowed | optional)


def _check_activation(judged: FeatureDraft) -> None:
    key = "dflash.hidden_activation"
    name = judged.reader.text(key)
    if name is not None and name not in _ACTIVATIONS:
        judged.reader.out_of_range(
            key, f"`{key}` is unknown", expected=", ".join(_ACTIVATIONS), found=name
        )


def _check_mask_token(judged: FeatureDraft) -> None:
    """The block is filled with mask tokens; without the key every decode fails."""
    key = "tokenizer.ggml.mask_token_id"
    if key not in judged.header.values:
        judged.findings.add(
            "P312",
            f"`{key}` is missing",
            place=judged.header.place(key),
            expected="the id of the token that stands for one to be drafted",
            found="nothing",
            hint="convert the draft again with a current llama.cpp",
        )


def _check_attention(judged: FeatureDraft, d: Dimensions) -> None:
    reader = judged.reader
    if d.key_length != d.value_length:
        reader.out_of_range(
            "dflash.attention.value_length",
            "keys and values of a block draft have the same length",
            expected=d.key_length,
            found=d.value_length,
        )
    key = "dflash.attention.sliding_window"
    window = reader.integer(key, 0, 1 << 28, default=0)
    pattern = reader.flags(key + "_pattern")
    if window and (pattern is None or len(pattern) < d.layers or not any(pattern[: d.layers])):
        reader.out_of_range(
            key,
            f"`{key}` is {window}, but no layer slides",
            expected=f"`{key}_pattern` with {d.layers} booleans, one of them true",
            found=pattern,
        )
