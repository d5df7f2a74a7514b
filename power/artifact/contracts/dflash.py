"""DFlash: a block of masks is filled in one pass. Proposes up to `block_size` - 1 tokens."""

from __future__ import annotations

from power.artifact.contracts.block_draft import check_tensors, judge
from power.artifact.contracts.common import FeatureDraft, Target, target_of
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.header import Header

_SMALLEST_BLOCK = 2  # the first slot is the anchor: one slot alone proposes nothing


def check(draft: Header, target: Header) -> PairFacts:
    """Check a DFlash head for `target`."""
    judged, block = _judge(draft, target_of(target))
    notes = judged.check_vocabulary()
    judged.finish()
    return PairFacts("dflash", None if block is None else block - 1, judged.head_rows, notes)


def facts(draft: Header) -> HeaderFacts:
    """The head's own facts, whatever its target."""
    return _judge(draft, None)[0].finish()


def _judge(draft: Header, target: Target | None) -> tuple[FeatureDraft, int | None]:
    judged, block = judge(draft, target, (), _SMALLEST_BLOCK)
    check_tensors(judged, {}, {})
    return judged, block
