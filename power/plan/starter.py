"""`power init`: measure the artifacts at hand and write a first manifest for them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from pydantic_core import PydanticCustomError

from power.artifact.contracts.common import detect_kind
from power.artifact.contracts.pair import check_pair
from power.artifact.hashing import hash_files
from power.artifact.header import Header
from power.artifact.inspection import open_named
from power.artifact.opened import OpenArtifact
from power.artifact.target import check_target
from power.diagnostics import PowerError, fail
from power.manifest import starter as text
from power.manifest.model import DraftKind
from power.manifest.text_rules import one_line, origin

_LICENCE = ("general.license",)
_SOURCES = ("general.source.url", "general.url", "general.repo_url", "general.source.repo_url")
_LATER_SHARD = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")
_SHOWN = 8


def starter(  # noqa: PLR0913 - the facts of one manifest
    target: Path,
    *,
    draft: Path | None = None,
    kind: DraftKind | None = None,
    name: str | None = None,
    folder: Path = Path(),
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """The text of a manifest that lies in `folder` and pins `target` and `draft`.

    Every shard of a split GGUF is found, hashed and listed; the draft's kind is what
    its file says, unless `kind` is given; licence and source are those of the
    headers. `progress` is called with (bytes done, bytes in all). Raises PowerError:
    P2xx and P3xx an artifact cannot be read, is no target, or is no draft for it,
    P117 its path or the name cannot be written.
    """
    with ExitStack() as stack:
        opened = [
            stack.enter_context(open_named(path)) for path in (target, draft) if path is not None
        ]
        facts = check_target(opened[0].header)
        if draft is not None:
            kind = kind or _kind(opened[1].header)
            check_pair(kind, opened[1].header, opened[0].header)
        digests = iter(hash_files([f for artifact in opened for f in artifact.files], progress))
        measured = [
            _measured(path, artifact, digests, folder)
            for path, artifact in zip((target, draft), opened, strict=False)
            if path is not None
        ]
    return text.starter(
        measured[0],
        measured[1] if draft is not None else None,
        kind=kind or "draft-model",
        name=name,
        native_head=facts.nextn_layers > 0,
        context=facts.context,
    )


def _measured(
    path: Path, artifact: OpenArtifact, digests: Iterable[str], folder: Path
) -> text.MeasuredArtifact:
    # Symlinks are followed only inside a root, so both sides are taken as they are written.
    parent = Path(os.path.relpath(path.parent.absolute(), folder.absolute()))
    elsewhere = ".." in parent.parts
    below = Path() if elsewhere else parent
    files = tuple(
        text.MeasuredFile((below / file.name).as_posix(), file.size, digest)
        for file, digest in zip(artifact.files, digests, strict=False)
    )
    license_, source = _provenance(artifact.header)
    return text.MeasuredArtifact(files, elsewhere, license_, source)


def _kind(draft: Header) -> DraftKind:
    found = detect_kind(draft)
    return next((kind for kind in get_args(DraftKind) if kind == found), "draft-model")


def _provenance(header: Header) -> tuple[str | None, str | None]:
    """Licence and source as the file's author wrote them, where a manifest can hold them."""
    licence = next(filter(None, (_text(header, key, one_line) for key in _LICENCE)), None)
    return licence, next(filter(None, (_text(header, key, origin) for key in _SOURCES)), None)


def _text(header: Header, key: str, rule: Callable[[str], str]) -> str | None:
    value = header.text(key)
    try:
        return None if value is None else rule(value)
    except PydanticCustomError:
        return None


def at_hand(folder: Path) -> tuple[Path, Path | None]:
    """The target in `folder`, and its draft where two files are such a pair.

    Of two models the larger is the target. Raises PowerError P703 when it cannot be
    told, and P2xx for a file that cannot be read.
    """
    found = sorted(path for path in folder.glob("*.gguf") if not _LATER_SHARD.search(path.name))
    chosen: tuple[Path, Path | None] | None = None
    if len(found) == 1:
        chosen = found[0], None
    elif len(found) == 2:  # noqa: PLR2004 - a target and a draft
        chosen = _pair(found)
    if chosen is None:
        fail(
            "P703",
            "TARGET is needed: the working folder does not hold one GGUF, or a target and its "
            "draft",
            expected="1 file `*.gguf`, or 2 of which one is a draft for the other",
            found=", ".join(path.name for path in found[:_SHOWN]) or "none",
            hint="name the target: `power init TARGET.gguf`",
        )
    return chosen


def _pair(found: list[Path]) -> tuple[Path, Path] | None:
    """Target and draft of two files, None where they are not such a pair."""
    with ExitStack() as stack:
        headers = {path: stack.enter_context(open_named(path)).header for path in found}
        larger = sorted(found, key=lambda path: headers[path].size)
        orders = (larger, found, found[::-1])
        pairs = [(t, d) for d, t in orders if _are_a_pair(headers[d], headers[t])]
    return pairs[0] if pairs else None


def _are_a_pair(draft: Header, target: Header) -> bool:
    try:
        check_target(target)
        check_pair(_kind(draft), draft, target)
    except PowerError:
        return False
    return True
