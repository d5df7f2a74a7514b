"""The report of `power inspect`: as data, and as text for a person."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
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
    """What held: as what the file was judged, its facts (None for a bare container), the pair's."""

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
    if judgement.facts is None:
        return ["a bare container: no architecture's keys and no tokenizer"]
    if kind == judgement.kind or (kind, judgement.kind) == ("draft-model", "target"):
        return []
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


def render_text(report: dict[str, Any]) -> str:
    """The report as lines of text; texts in it are escaped already."""
    return "\n".join(_lines(report))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    tensors = report["tensors"]
    types = ", ".join(f"{count} {name}" for name, count in tensors["types"].items())
    yield f"{report['file']}: {report['judged_as']}"
    yield _row("bytes", f"{report['bytes']:,} in {len(report['files'])} file(s)")
    yield _row("container", f"GGUF v{report['gguf_version']}, alignment {report['alignment']}")
    yield _row("tensors", f"{tensors['count']}: {types}" if types else "none")
    facts = report["facts"]
    if facts is None:
        yield _row("model", "none: no architecture's keys and no tokenizer")
        return
    yield _row(
        "architecture", facts["architecture"] + (", recurrent" if facts["recurrent"] else "")
    )
    yield _row("file type", facts["file_type"])
    yield _row(
        "size",
        f"{facts['layers']} blocks of width {facts['width']}, context {facts['context']}"
        + (f", {facts['nextn_layers']} native prediction" if facts["nextn_layers"] else ""),
    )
    pre = facts["pre_tokenizer"] or "no pre-tokenizer"
    yield _row("vocabulary", f"{facts['vocabulary']} tokens, {facts['tokenizer_model']} ({pre})")
    yield _row("", f"sha256 {facts['vocabulary_sha256']}")
    for name, token in report["special_tokens"].items():
        yield _row(f"{name} token", f"{token['id']} `{token['text']}`")
    yield _row("ends at", ", ".join(map(str, report["end_of_generation"])))
    yield _row("chat template", facts["chat_template_sha256"] or "none")
    if report["serves"]:
        yield _row("serves", ", ".join(report["serves"]))
    yield from _contract_lines(report)


def _contract_lines(report: dict[str, Any]) -> Iterator[str]:
    for contract in report["contracts"]:
        verdict = "holds" if contract["holds"] else f"no: {contract['reasons'][0]}"
        yield _row(f"as {contract['kind']}", verdict)
    pair = report.get("pair")
    if pair is None:
        return
    width = "any number of" if pair["max_width"] is None else f"up to {pair['max_width']}"
    yield _row("pair", f"fits as {pair['kind']}, {width} tokens a proposal")
    for note in pair["notes"]:
        yield _row("note", note)


def _row(label: str, text: str) -> str:
    return f"  {label:<16} {text}".rstrip()
