"""`power init`: measure the artifacts at hand and write a first manifest for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from power.artifact.hashing import hash_files
from power.artifact.opened import OpenArtifact
from power.artifact.target import check_target
from power.manifest import starter as text
from power.manifest.model import DraftKind


def starter(  # noqa: PLR0913 - the facts of one manifest
    target: Path,
    *,
    draft: Path | None = None,
    kind: DraftKind = "draft-model",
    name: str | None = None,
    folder: Path = Path(),
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """The text of a manifest that lies in `folder` and pins `target` and `draft`.

    Every shard of a split GGUF is found, hashed and listed. `progress` is called
    with (bytes done, bytes in all). Raises PowerError: P2xx and P3xx an artifact
    cannot be read or is no target, P117 its path or the name cannot be written.
    """
    with ExitStack() as stack:
        opened = [
            stack.enter_context(OpenArtifact.open(path.name, [path.parent]))
            for path in (target, draft)
            if path is not None
        ]
        facts = check_target(opened[0].header)
        digests = iter(hash_files([f for artifact in opened for f in artifact.files], progress))
        measured = [
            _measured(path, artifact, digests, folder)
            for path, artifact in zip((target, draft), opened, strict=False)
            if path is not None
        ]
    return text.starter(
        measured[0],
        measured[1] if draft is not None else None,
        kind=kind,
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
    return text.MeasuredArtifact(files, elsewhere=elsewhere)
