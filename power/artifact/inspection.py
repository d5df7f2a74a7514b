"""What there is to say about one GGUF file: `power inspect`.

A file that claims to be a model is judged as one, and refused when it is not. A
bare container, with neither the keys of an architecture nor a tokenizer, is
only described.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from power.artifact.contracts.common import detect_kind
from power.artifact.contracts.pair import check_pair, draft_facts
from power.artifact.hashing import check_digest, hash_files
from power.artifact.header import Header
from power.artifact.opened import OpenArtifact
from power.artifact.report import Judgement, report
from power.artifact.target import check_target
from power.diagnostics import Diagnostic, PowerError


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
    with open_named(path, anywhere=True) as artifact:
        judgement = _judge(artifact.header, kind, target)
        if digests is not None:
            _check_digests(artifact, digests)
        return report(artifact, judgement)


def open_named(path: Path, *, anywhere: bool = False) -> OpenArtifact:
    """Open a file that the user named, shards beside it.

    anywhere: links are followed out of its folder too. Raises as `OpenArtifact.open`.
    """
    roots = [path.parent, *([Path(os.path.realpath(path)).parent] if anywhere else [])]
    try:
        return OpenArtifact.open(path.name, roots)
    except PowerError as error:
        raise PowerError(tuple(_without_roots(d, path) for d in error.diagnostics)) from error


def _without_roots(found: Diagnostic, path: Path) -> Diagnostic:
    """Advice for a path that was typed: no artifact root has a part in it."""
    if found.code != "P221" or found.found != "no such file":
        return found
    if found.message.startswith(f"`{path.name}` "):
        return replace(found, hint="check the path", expected=str(path))
    return replace(found, hint="put all shards of the model into one folder")


def _judge(header: Header, kind: str | None, target: Path | None) -> Judgement:
    found = detect_kind(header)
    if target is not None:
        wanted = kind or found
        with open_named(target, anywhere=True) as other:
            check_target(other.header)
            same = wanted == "mtp" and header.name == other.header.name  # the block is in it
            pair = check_pair(wanted, other.header if same else header, other.header)
        return Judgement(wanted, draft_facts(wanted, header), pair)
    if kind == "mtp" and found != "mtp":
        return Judgement(kind, draft_facts(kind, header), check_pair(kind, header, header))
    if kind is not None:
        return Judgement(kind, draft_facts(kind, header))
    if found != "mtp" and _bare(header):
        return Judgement("container", None)
    if found == "draft-model":
        return Judgement("target", check_target(header))
    return Judgement(found, draft_facts(found, header))


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
