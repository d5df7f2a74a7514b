"""EAGLE-3: one decoder layer over features of three target layers.

Source: llama.cpp, src/models/eagle3.cpp.
"""

from __future__ import annotations

from power.artifact.contracts.common import FeatureDraft, Target, shared_head, target_of
from power.artifact.dimensions import Dimensions
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.header import Header
from power.artifact.layouts import Layout, attention, feed_forward, vectors

_KEYS = frozenset({"target_hidden_size", "norm_before_residual", "norm_before_fc"})
_LAYERS = 3


def check(draft: Header, target: Header) -> PairFacts:
    """Check an EAGLE-3 head for `target`."""
    judged = _judge(draft, target_of(target))
    notes = judged.check_vocabulary()
    judged.finish()
    return PairFacts("eagle3", None, judged.head_rows, notes)


def facts(draft: Header) -> HeaderFacts:
    """The head's own facts, whatever its target."""
    return _judge(draft, None).finish()


def _judge(draft: Header, target: Target | None) -> FeatureDraft:
    judged = FeatureDraft(draft, target, "eagle3")
    judged.check_reduced_head()
    judged.check_keys(_KEYS)
    judged.check_layers(exactly=_LAYERS)
    features = judged.reader.integer("eagle3.target_hidden_size", 1, 1 << 20, required=True)
    judged.check_width("eagle3.target_hidden_size", features)
    dimensions, vocabulary = judged.dimensions, judged.vocabulary
    if dimensions is None or vocabulary is None or features is None:
        return judged
    _check_shape_keys(judged, dimensions)
    if dimensions.uniform:
        required = _required(judged, dimensions, features)
        optional = dict(shared_head(len(vocabulary), dimensions.width, judged.head_rows))
        judged.check_tensors(required, optional | {"rope_freqs.weight": (_half_head(dimensions),)})
    if not {"token_embd.weight", "output.weight"} <= draft.tensors.keys():
        # What the draft lacks it borrows from the target, in the target's width.
        judged.check_width("eagle3.embedding_length", dimensions.width)
    return judged


def _check_shape_keys(judged: FeatureDraft, d: Dimensions) -> None:
    if d.layers != 1:
        judged.reader.out_of_range(
            "eagle3.block_count", "an EAGLE-3 head has one block", expected=1, found=d.layers
        )
    if d.key_length != d.value_length:
        judged.reader.out_of_range(
            "eagle3.attention.value_length",
            "keys and values of an EAGLE-3 head have the same length",
            expected=d.key_length,
            found=d.value_length,
        )


def _required(judged: FeatureDraft, d: Dimensions, features: int) -> Layout:
    inputs = _LAYERS * features
    out: Layout = {"fc.weight": (inputs, d.width), "output_norm.weight": (d.width,)}
    if judged.reader.flag("eagle3.norm_before_fc"):
        out |= {"enc.output_norm.weight": (inputs,)}
    out |= vectors(0, d.width, ("attn_norm", "attn_norm_2", "ffn_norm"))
    # The token's embedding and the fused features enter the projections side by side.
    out |= attention(judged.header, 0, 2 * d.width, d)
    return out | feed_forward(0, d)


def _half_head(d: Dimensions) -> int:
    return d.key_length // 2
