"""Which files of a work tree, and of the commit it is compared with, are documents.

A file is recognised by content: the keys that only one kind has. One that cannot be
read (conflict markers, a broken line) is recognised by its first words and its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from power.diagnostics import Diagnostic, PowerError
from power.manifest.read import decode, read_bytes
from power.manifest.syntax import parse
from power.plan.lock import made_from
from power.review.documents import (
    Beside,
    Document,
    Kind,
    beside_blob,
    beside_file,
    content_kind,
    parse_document,
)
from power.review.git import FileChange, WorkTree

_ENDINGS = (".toml", ".lock")
_PLACES: dict[str, Kind] = {"manifests": "manifest", "profiles": "profile"}
_NAMES: dict[str, Kind] = {"manifest.toml": "manifest", "trust.toml": "trust"}
_TABLES: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"^[ \t]*\[target\]", re.MULTILINE), "manifest"),
    (re.compile(r"^[ \t]*(?:summary\s*=|\[\[evidence\]\])", re.MULTILINE), "profile"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """One document at `path` (from the root). `document` is None where it cannot be read."""

    path: str
    kind: Kind
    text: str
    document: Document | None
    problems: tuple[Diagnostic, ...] = field(default=())


class Tree:
    """The documents of a work tree, and of a commit, read when they are asked for."""

    def __init__(self, work: WorkTree, commit: str) -> None:
        self.work = work
        self.commit = commit
        self._now: dict[str, Found | None] = {}

    @property
    def root(self) -> Path:
        """The folder that all paths are relative to."""
        return self.work.root

    @cached_property
    def changes(self) -> list[FileChange]:
        """Every file that differs from the commit."""
        return self.work.changes(self.commit)

    def now(self) -> dict[str, Found]:
        """Every document of the work tree by its path, sorted."""
        found = ((path, self.at(path)) for path in self.work.files() if may_be_one(path))
        return {path: one for path, one in found if one is not None}

    def at(self, path: str) -> Found | None:
        """The document at `path` of the work tree; None when there is none."""
        if path not in self._now:
            file = self.root / path
            self._now[path] = None
            if may_be_one(path) and file.is_file() and not file.is_symlink():
                self._now[path] = recognise(path, _read(file), beside_file(file))
        return self._now[path]

    def before(self, path: str) -> Found | None:
        """The document at `path` of the commit; None when there is none."""
        if not may_be_one(path):
            return None
        try:
            data = self.work.blob(self.commit, path)
        except PowerError:  # too large for a document
            return None
        shown = self.commit[:12]
        beside = beside_blob(self.commit, path, shown, self.root)
        return None if data is None else recognise(path, data, beside)


def may_be_one(path: str) -> bool:
    """Whether a file of this name may be a document at all."""
    return path.endswith(_ENDINGS)


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, "document")
    except PowerError:
        return b""


def recognise(path: str, data: bytes, beside: Beside) -> Found | None:
    """The document in `data`, with what stands against it; None when it is none of ours."""
    try:
        text = decode(data, path, "document")
    except PowerError as error:
        kind = _by_place(path)
        return None if kind is None or not data else Found(path, kind, "", None, error.diagnostics)
    kind = _kind(path, text)
    if kind is None:
        return None
    try:
        document = parse_document(data, path, beside, kind)
    except PowerError as error:
        return Found(path, kind, text, None, error.diagnostics)
    return Found(path, kind, text, document)


def _kind(path: str, text: str) -> Kind | None:
    if made_from(text) is not None:
        return "plan"
    try:
        values = parse(text, path, "document")
    except PowerError:
        stated = (kind for table, kind in _TABLES if table.search(text))
        return _by_place(path) or (next(stated, None) if _has_schema(text) else None)
    # Other tools' files have a `target` or a `lock` as well, but no `schema` or digest.
    if "schema" in values:
        return content_kind(values) or _by_place(path)
    table = values.get("lock")
    return "plan" if isinstance(table, dict) and "plan_sha256" in table else None


def _has_schema(text: str) -> bool:
    return re.search(r"^[ \t]*schema[ \t]*=", text, re.MULTILINE) is not None


def _by_place(path: str) -> Kind | None:
    place = PurePosixPath(path)
    if place.suffix != ".toml":
        return None
    return _NAMES.get(place.name) or _PLACES.get(place.parent.name)
