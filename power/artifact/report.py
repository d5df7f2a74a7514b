"""The report of `power inspect`, as data."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from power.artifact.architectures import LAYER_INPUTS, NATIVE_PREDICTION
from power.artifact.contracts.common import KINDS, detect_kind
from power.artifact.contracts.pair import draft_facts
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.header import Header
from power.artifact.opened import OpenArtifact
from power.artifact.values import Numbers, Strings, Value
from power.artifact.vocabulary import vocabulary_of
from power.diagnostics import PowerError, escape

_TEXT_LIMIT = 200
_ITEMS_SHOWN = 3
_WHOLE = frozenset({"target", "draft-model", "mtp"})


@dataclass(frozen=True, slots=True)
class Judgement:
    """What held: as what the file was judged, its facts, the pair's.

    No facts: a bare container, or a table for a native head.
    """

    kind: str
    facts: HeaderFacts | None
    pair: PairFacts | None = None


def report(artifact: OpenArtifact, judgement: Judgement) -> dict[str, Any]:
    """What `inspect` returns: JSON-ready, all text from the file escaped."""
    header = artifact.header
    types = Counter(tensor.type.name for tensor in header.tensors.values())
    out: dict[str, Any] = {
        "file": escape(artifact.files[0].name),
        "bytes": artifact.size,
        "files": [{"name": escape(file.name), "bytes": file.size} for file in artifact.files],
        "gguf_version": header.version,
        "alignment": header.alignment,
        "judged_as": judgement.kind,
        "facts": None if judgement.facts is None else _facts(judgement.facts),
        "tensors": {
            "count": len(header.tensors),
            "bytes": sum(tensor.size for tensor in header.tensors.values()),
            "types": dict(sorted(types.items())),
        },
        "metadata": {key: _shown(value) for key, value in header.values.items()},
        "contracts": _contracts(header, judgement),
    }
    if judgement.facts is not None:
        out["serves"] = _serves(judgement.facts) if judgement.kind in _WHOLE else []
        vocabulary = vocabulary_of(header)
        out["special_tokens"] = {
            name: {"id": number, "text": escape(vocabulary.tokens.text(number), _TEXT_LIMIT)}
            for name, number in vocabulary.special.items()
        }
        out["end_of_generation"] = sorted(vocabulary.eog)
    if judgement.pair is not None:
        out["pair"] = asdict(judgement.pair)
    return out


def _facts(facts: HeaderFacts) -> dict[str, Any]:
    return {
        key: escape(value) if isinstance(value, str) else value
        for key, value in asdict(facts).items()
    }


def _contracts(header: Header, judgement: Judgement) -> list[dict[str, Any]]:
    """For every draft kind: whether the file holds its contract, and why not."""
    out = []
    for kind in KINDS:
        reasons = _objections(header, kind, judgement)
        out.append({"kind": kind, "holds": not reasons, "reasons": reasons})
    return out


def _objections(header: Header, kind: str, judgement: Judgement) -> list[str]:
    if kind == judgement.kind or (kind, judgement.kind) == ("draft-model", "target"):
        return []
    if judgement.kind == "container":
        return ["a bare container: no architecture's keys and no tokenizer"]
    found = detect_kind(header)
    if found != kind and not (kind == "mtp" and found == "draft-model"):
        return [f"the file is of kind `{found}`"]
    try:
        draft_facts(kind, header)
    except PowerError as error:
        return [escape(diagnostic.message) for diagnostic in error.diagnostics]
    return []


def _serves(facts: HeaderFacts) -> list[str]:
    """The draft kinds that a target with these facts can serve, whatever the draft."""
    out = ["draft-model"]
    if facts.nextn_layers == 1 and facts.architecture in NATIVE_PREDICTION:
        out.append("mtp")
    if facts.architecture in LAYER_INPUTS:
        out += ["eagle3", "dflash", "dflash2", "dspark"]
    return out


def _shown(value: Value) -> Any:
    data = value.data
    if isinstance(data, str):
        return escape(data, _TEXT_LIMIT)
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, Strings):
        count = min(len(data), _ITEMS_SHOWN)
        first: list[Any] = [escape(data.text(index), _TEXT_LIMIT) for index in range(count)]
        return {"type": value.shown, "count": len(data), "first": first}
    if isinstance(data, Numbers):
        first = [
            str(item) if isinstance(item, float) and not math.isfinite(item) else item
            for item in data.items()[:_ITEMS_SHOWN]
        ]
        return {"type": value.shown, "count": len(data), "first": first}
    return data
