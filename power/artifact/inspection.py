"""What there is to say about one GGUF file: `power inspect`.

A file that claims to be a model is judged as one, and refused when it is not. A
bare container, with neither the keys of an architecture nor a tokenizer, is
only described.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from power.artifact.architectures import LAYER_INPUTS, NATIVE_PREDICTION
from power.artifact.contracts.common import KINDS, detect_kind
from power.artifact.contracts.pair import check_pair, draft_facts
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.hashing import check_digest, hash_files
from power.artifact.header import Header
from power.artifact.opened import OpenArtifact
from power.artifact.target import check_target
from power.artifact.values import Numbers, Strings, Value
from power.artifact.vocabulary import vocabulary_of
from power.diagnostics import PowerError, escape

_TEXT_LIMIT = 200
_ITEMS_SHOWN = 3
_WHOLE = frozenset({"target", "draft-model", "mtp"})


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What held: the file's own facts (None for a bare container), and the pair's."""

    kind: str
    facts: HeaderFacts | None
    pair: PairFacts | None = None


def inspect(
    path: Path,
    kind: str | None,
    target: Path | None,
    digests: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A JSON-ready report on the GGUF at `path`, all text from the file escaped.

    With `kind` the file must be such a draft, with `target` also for that target.
    `digests` gives the SHA-256 that files of the artifact must have, by file name:
    shards of two models of one shape differ in nothing else.
    Raises PowerError with what is wrong with the file (P2xx, P3xx).
    """
    with _open(path) as artifact:
        judgement = _judge(artifact.header, kind, target)
        if digests is not None:
            _check_digests(artifact, digests)
        return _report(artifact, judgement)


def _open(path: Path) -> OpenArtifact:
    """Open a file that the user named: wherever it is, links followed, shards beside it."""
    folder = path.parent
    return OpenArtifact.open(path.name, [folder, path.resolve().parent])


def _judge(header: Header, kind: str | None, target: Path | None) -> _Judgement:
    found = detect_kind(header)
    if target is not None:
        wanted = kind or found
        with _open(target) as other:
            check_target(other.header)
            pair = check_pair(wanted, header, other.header)
        return _Judgement(wanted, draft_facts(wanted, header), pair)
    if kind == "mtp":
        return _Judgement(kind, draft_facts(kind, header), check_pair(kind, header, header))
    if kind is not None:
        return _Judgement(kind, draft_facts(kind, header))
    if _bare(header):
        return _Judgement("container", None)
    if found == "draft-model":
        return _Judgement("target", check_target(header))
    return _Judgement(found, draft_facts(found, header))


def _bare(header: Header) -> bool:
    """Whether the file makes no claim to be a model: nothing could be judged but its form."""
    if header.text("general.type") not in {None, "model"}:
        return False
    prefixes = ("tokenizer.", f"{header.text('general.architecture') or 'general'}.")
    known = ("general.", "split.")
    return bool(header.tensors) and not any(
        key.startswith(prefixes) and not key.startswith(known) for key in header.values
    )


def _check_digests(artifact: OpenArtifact, digests: Mapping[str, str]) -> None:
    for file, found in zip(artifact.files, hash_files(artifact.files), strict=True):
        if file.name in digests:
            check_digest(file.name, digests[file.name], found)


def _report(artifact: OpenArtifact, judgement: _Judgement) -> dict[str, Any]:
    header = artifact.header
    types = Counter(tensor.type.name for tensor in header.tensors.values())
    report: dict[str, Any] = {
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
        report["serves"] = _serves(judgement.facts) if judgement.kind in _WHOLE else []
        vocabulary = vocabulary_of(header)
        report["special_tokens"] = {
            name: {"id": number, "text": escape(vocabulary.tokens.text(number), _TEXT_LIMIT)}
            for name, number in vocabulary.special.items()
        }
        report["end_of_generation"] = sorted(vocabulary.eog)
    if judgement.pair is not None:
        report["pair"] = asdict(judgement.pair)
    return report


def _facts(facts: HeaderFacts) -> dict[str, Any]:
    return {
        key: escape(value) if isinstance(value, str) else value
        for key, value in asdict(facts).items()
    }


def _contracts(header: Header, judgement: _Judgement) -> list[dict[str, Any]]:
    """For every draft kind: whether the file holds its contract, and why not."""
    out = []
    for kind in KINDS:
        reasons = _objections(header, kind, judgement)
        out.append({"kind": kind, "holds": not reasons, "reasons": reasons})
    return out


def _objections(header: Header, kind: str, judgement: _Judgement) -> list[str]:
    if judgement.facts is None:
        return ["a bare container: no architecture's keys and no tokenizer"]
    if kind == judgement.kind or (kind, judgement.kind) == ("draft-model", "target"):
        return []
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
