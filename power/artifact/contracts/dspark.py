"""DSpark: DFlash with a Markov head that lets each slot see the one before it.

Proposes up to `block_size` tokens, one less when the anchor's slot is a bonus
(`sample_from_anchor` false).
"""

from __future__ import annotations

from power.artifact.contracts.block_draft import check_tensors, judge
from power.artifact.contracts.common import FeatureDraft, Target, target_of
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.header import Header
from power.artifact.layouts import Layout

_KEYS = ("sample_from_anchor", "has_confidence_head")
_ANCHOR = "dflash.sample_from_anchor"
_CONFIDENCE = "dflash.has_confidence_head"


def check(draft: Header, target: Header) -> PairFacts:
    """Check a DSpark head for `target`."""
    judged, width = _judge(draft, target_of(target))
    notes = judged.check_vocabulary()
    judged.finish()
    return PairFacts("dspark", width, judged.head_rows, notes)


def facts(draft: Header) -> HeaderFacts:
    """The head's own facts, whatever its target."""
    return _judge(draft, None)[0].finish()


def _judge(draft: Header, target: Target | None) -> tuple[FeatureDraft, int | None]:
    from_anchor = draft.flag(_ANCHOR) is not False
    judged, block = judge(draft, target, _KEYS, 1 if from_anchor else 2)
    judged.reader.flag(_ANCHOR)
    confident = judged.reader.flag(_CONFIDENCE)
    first = draft.tensors["markov_w1.weight"]
    rank = first.shape[0]
    d, vocabulary = judged.dimensions, judged.vocabulary
    if d is not None and vocabulary is not None:
        rows = judged.head_rows or len(vocabulary)
        required: Layout = {
            "markov_w1.weight": (rank, len(vocabulary)),
            "markov_w2.weight": (rank, rows),
        }
        # ggml drops trailing dimensions of 1: the file may have either form.
        stored = draft.tensors.get("conf_proj.weight")
        inputs = d.width + rank
        confidence = (inputs,) if stored and len(stored.shape) == 1 else (inputs, 1)
        optional: Layout = {"conf_proj.bias": (1,), "markov_w2.scale": (1,)}
        (required if confident else optional)["conf_proj.weight"] = confidence
        check_tensors(judged, required, optional)
    width = None if block is None else block - (not from_anchor)
    return judged, width
