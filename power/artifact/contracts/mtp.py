"""Native multi-token prediction: the target's own extra block as its draft.

Driven with llama.cpp's MTP context; qwen35 with exactly one block is what has
been proved. Two blocks load and then end the engine's process.

Beside it there may be a table: a GGUF of its own, without weights, that names the
tokens which the block's head is reduced to (docs/adr/0010). The engine never
loads it.
"""

from __future__ import annotations

from power.artifact.architectures import NATIVE_PREDICTION
from power.artifact.contracts import provenance
from power.artifact.contracts.common import detect_kind
from power.artifact.contracts.ranked import TABLE, check_ids
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.findings import Findings
from power.artifact.header import Header
from power.artifact.layouts import Layout, check_tensors, prediction_block
from power.artifact.reader import Reader
from power.artifact.target import check_target
from power.diagnostics import fail


def check(draft: Header, target: Header) -> PairFacts:
    """Check the prediction block of `target`.

    `draft` is the same header, or that of a table for the block's head.
    """
    table = detect_kind(draft) == "mtp"
    if not table and draft is not target:
        fail(
            "P332",
            "native prediction uses the target's own block, not another file",
            expected=f"{target.name} alone, or a table of tokens for its head",
            found=draft.name,
            hint="leave the draft out",
        )
    own = _block(target)
    return PairFacts("mtp", None, _check_table(draft, own.vocabulary) if table else None)


def facts(draft: Header) -> HeaderFacts | None:
    """The facts of a model with one native prediction block, or None for a table, which is none.

    Raises P332 without the block, P30x and P333 for a table that is not one.
    """
    if detect_kind(draft) == "mtp":
        _check_table(draft, None)
        return None
    return _predictor(draft)


def _block(target: Header) -> HeaderFacts:
    own = _predictor(target)
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
    return own


def _predictor(draft: Header) -> HeaderFacts:
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


def _check_table(table: Header, size: int | None) -> int:
    """Check a file of ids and nothing else; the number of ids. `size`: of the vocabulary."""
    findings = Findings()
    reader = Reader(table, findings)
    provenance.check(reader)
    for key in table.values:
        if not key.startswith(("general.", provenance.PREFIX)):
            reader.out_of_range(
                key,
                f"`{key}` is a key that a table of a native head does not have",
                expected="only `general` keys and what the table was made from",
                found=key,
            )
    for name, tensor in table.tensors.items():
        if name != TABLE:
            findings.add(
                "P307",
                f"tensor `{name}` does not belong to a table of a native head",
                place=f"{tensor.file}: {name} at byte {tensor.at}",
                expected=f"`{TABLE}` alone: the head's rows are the target's own",
                found=name,
                hint="make it again with tools/build_compact_head.py",
            )
    if TABLE in table.tensors:
        check_ids(findings, table, size)
    else:
        findings.add(
            "P305",
            f"tensor `{TABLE}` is missing",
            place=table.name,
            expected=f"`{TABLE}`: the token of each row",
            found="nothing",
            hint="make it again with tools/build_compact_head.py",
        )
    findings.raise_any()
    return table.tensors[TABLE].shape[0]
