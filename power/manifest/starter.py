"""A first manifest for artifacts at hand, rendered from `templates/manifest.toml.j2`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from power.manifest.file_rules import HUBS
from power.manifest.load import parse_manifest
from power.manifest.model import DraftKind
from power.manifest.templates import render

_PROFILES: dict[DraftKind, str] = {
    "draft-model": "balanced",
    "dflash": "balanced",
    "dflash2": "dflash2-fixed",
    "dspark": "dspark-k10s6",
    "eagle3": "balanced",
}


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """One GGUF file: its path as a manifest writes it, its size in bytes, its SHA-256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class MeasuredArtifact:
    """All files of one artifact in order; more than one only for a split GGUF.

    `elsewhere` says that the paths lie below no folder that the manifest's own
    place implies, so that compiling needs `--artifacts`.
    """

    files: tuple[MeasuredFile, ...]
    elsewhere: bool = False
    license: str | None = None
    source: str | None = None

    @property
    def from_hub(self) -> bool:
        """Whether the source needs a revision that no header knows."""
        host = (urlsplit(self.source or "").hostname or "").removeprefix("www.")
        return host in HUBS


def starter(  # noqa: PLR0913 - the facts of one manifest
    target: MeasuredArtifact,
    draft: MeasuredArtifact | None = None,
    *,
    kind: DraftKind = "draft-model",
    name: str | None = None,
    native_head: bool = False,
    context: int = 4096,
) -> str:
    """The text of a manifest that loads back without a finding.

    `name` is by default made from the target's file name. `native_head`: the
    target has an MTP block. `context` is the most tokens that the target was made
    for. Raises PowerError P117 when a path or name cannot stand in a manifest.
    """
    undrafted = "balanced" if native_head else "lookup-cpu"
    profile = undrafted if draft is None else _PROFILES[kind]
    values = {
        "name": name or name_from(target.files[0].path),
        "profile": profile,
        "target": target,
        "draft": draft,
        "kind": kind,
        "native_head": native_head,
        # The profile for DSpark is made for its own small context.
        "context": None if profile == "dspark-k10s6" else min(4096, context),
        "max_tokens": min(256, context - 1),
    }
    text = render("manifest.toml.j2", values)
    parse_manifest(text.encode(), "the new manifest")
    return text


def name_from(path: str) -> str:
    """A manifest's name from an artifact's path: `models/Qwen 3.Q4_0.gguf` as `qwen-3.q4_0`."""
    stem = path.rsplit("/", 1)[-1].lower().removesuffix(".gguf")
    stem = re.sub(r"-\d{5}-of-\d{5}$", "", stem)
    slug = re.sub(r"[^a-z0-9._-]+", "-", stem).lstrip("._-")[:63].rstrip("._-")
    return slug or "model"
