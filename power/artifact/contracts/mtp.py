"""Native multi-token prediction: the target's own extra block as its draft.

Driven with llama.cpp's MTP context; qwen35 with exactly one block is what has
been proved. Two blocks load and then end the engine's process.
"""

from __future__ import annotations

from power.artifact.architectures import NATIVE_PREDICTION
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.findings import Findings
from power.artifact.header import Header
from power.artifact.layouts import Layout, check_tensors, prediction_block
from power.artifact.target import check_target
from power.diagnostics import fail


def check(draft: Header, target: Header) -> PairFacts:
    """Check the prediction block of `target`; `draft` must be the same header."""
    if draft is not target and draft.name != target.name:
        fail(
            "P332",
            "native prediction uses the target's own block, not another file",
            expected=target.name,
            found=draft.name,
            hint="leave the draft out",
        )
    own = facts(target)
    findings = Findings()
    block = own.layers - 1
    head = {
        f"blk.{block}.nextn.shared_head_norm.weight": (own.width,),
        f"blk.{block}.nextn.shared_head_head.weight": (own.width, own.vocabulary),
        f"blk.{block}.nextn.embed_tokens.weight": (own.width, own.vocabulary),
    }
    required: Layout = prediction_block(block, own.width)
    check_tensors(findings, target, required, head)
    findings.raise_any()
    return PairFacts(kind="mtp", max_width=None, fr_vocabulary=None)


def facts(draft: Header) -> HeaderFacts:
    """The facts of a model with one native prediction block; raises P332 without it."""
    own = check_target(draft)
    key = f"{own.architecture}.nextn_predict_layers"
    if own.nextn_layers != 1:
        fail(
            "P332",
            f"the model has {own.nextn_layers} native prediction blocks",
            place=draft.place(key),
            expected="1",
            found=own.nextn_layers,
            hint="choose another strategy for this target",
        )
    if own.architecture not in NATIVE_PREDICTION:
        fail(
            "P332",
            f"native prediction of `{own.architecture}` models is not supported",
            place=draft.place("general.architecture"),
            expected=", ".join(sorted(NATIVE_PREDICTION)),
            found=own.architecture,
            hint="choose another strategy for this target",
        )
    return own
