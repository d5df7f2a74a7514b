"""DFlash2: DFlash with convolutions and a selector that walks a lattice of candidates.

Proposes up to `block_size` - 1 tokens. A reduced head (`d2t`) is refused: the
engine's loader takes one, but nobody has shown that it then drafts right.
"""

from __future__ import annotations

from power.artifact.contracts.block_draft import check_tensors, judge
from power.artifact.contracts.common import FeatureDraft, Target, target_of
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.header import Header
from power.artifact.layouts import Layout

_KEYS = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
_SMALLEST_BLOCK = 2
_LARGEST = 1 << 16


def check(draft: Header, target: Header) -> PairFacts:
    """Check a DFlash2 head for `target`."""
    judged, block = _judge(draft, target_of(target))
    notes = judged.check_vocabulary()
    judged.finish()
    return PairFacts("dflash2", None if block is None else block - 1, None, notes)


def facts(draft: Header) -> HeaderFacts:
    """The head's own facts, whatever its target."""
    return _judge(draft, None)[0].finish()


def _judge(draft: Header, target: Target | None) -> tuple[FeatureDraft, int | None]:
    judged, block = judge(draft, target, _KEYS, _SMALLEST_BLOCK)
    if "d2t" in draft.tensors:
        judged.findings.add(
            "P333",
            "a DFlash2 draft with a reduced vocabulary is not supported",
            place=draft.name,
            expected="a head of the full vocabulary",
            found="`d2t`",
            hint="use the draft with its full head",
        )
    sizes = {
        name: judged.reader.integer(f"dflash.{name}", 1, _LARGEST, required=True) for name in _KEYS
    }
    kernel, group, rank, top_k = (sizes[name] or 0 for name in _KEYS)
    d, vocabulary = judged.dimensions, judged.vocabulary
    if d is None or vocabulary is None or None in sizes.values():
        return judged, block
    _check_sizes(judged, d.width, group, top_k)
    count = len(vocabulary)
    required: Layout = {
        "selector_predecessor.weight": (rank, count),
        "selector_successor.weight": (rank, count),
        "selector_hidden.weight": (d.width, rank),
    }
    for index in range(d.layers):
        for part in ("attn", "ffn"):
            projected = 2 * kernel * (d.width // group)
            required[f"blk.{index}.{part}_conv_base"] = (d.width, kernel, 2)
            required[f"blk.{index}.{part}_conv_proj.weight"] = (d.width, projected)
    check_tensors(judged, required, {})
    return judged, block


def _check_sizes(judged: FeatureDraft, width: int, group: int, top_k: int) -> None:
    if width % group:
        judged.reader.out_of_range(
            "dflash.conv_group_size",
            f"groups of {group} do not divide the width {width}",
            expected=f"a divisor of {width}",
            found=group,
        )
    if width < top_k * (top_k + 1):
        judged.reader.out_of_range(
            "dflash.selector_top_k",
            f"a lattice of {top_k} candidates does not fit a row of {width}",
            expected=f"k * (k + 1) <= {width}",
            found=top_k,
        )
