"""What is compared: manifests, profiles, plans and trust files, from files or from git."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from power.diagnostics import Diagnostic, PowerError, escape, fail
from power.manifest.effective import refuse_link_outside
from power.manifest.load import (
    LoadedManifest,
    LoadedProfile,
    kind_of,
    parse_manifest,
    parse_profile,
)
from power.manifest.meaning import meaning
from power.manifest.merge import Effective, merge
from power.manifest.read import conflict_spans, decode, read_bytes
from power.manifest.shipped import profile_path
from power.manifest.syntax import parse
from power.review.git import blob, commit_of, git

Kind = Literal["manifest", "profile", "plan", "trust"]
Beside = Callable[[str], bytes]
"""A path relative to a document's folder -> the bytes there. Raises PowerError."""

# What a profile is judged with: a manifest that says nothing about settings.
_BARE = b"""schema = 1
name = "any"
[target]
path = "any.gguf"
bytes = 1
sha256 = "%s"
""" % (b"0" * 64)


@dataclass(frozen=True, slots=True)
class Document:
    """A document by meaning: `content` is plain values under the keys that the file wrote.

    `spec` is how the person named it. `effective` (manifests and profiles) is what
    holds once defaults and the named profile are under it. `remarks` say what could
    not be looked at.
    """

    kind: Kind
    spec: str
    content: dict[str, Any]
    effective: Effective | None = None
    remarks: tuple[Diagnostic, ...] = field(default=())


def load_document(spec: str) -> Document:
    """The document that `spec` names: a path, or `REV:path` for a file in a commit.

    An existing file wins over a revision of the same spelling. As in git, the path
    of `REV:path` starts at the repository's root, and at the working folder when
    it starts with `./`. Raises PowerError: P101 to P120 the file cannot be read
    as what it is, P43x a plan is not sound, P451 it is none of these, P452 to
    P455 git cannot give it.
    """
    path = Path(spec)
    revision, colon, inner = spec.partition(":")
    if not colon or os.path.lexists(path):
        return parse_document(read_bytes(path, "document"), spec, beside_file(path))
    commit = _commit(revision, inner, spec)
    data = blob(commit, inner, spec)
    if data is None:
        fail(
            "P454",
            f"`{revision}` holds no file `{inner}`",
            place=spec,
            hint=f"`git ls-tree -r --name-only {revision}` lists its files",
        )
    return parse_document(data, spec, beside_blob(commit, inner, revision))


def parse_document(
    data: bytes, spec: str, beside: Beside | None = None, kind: Kind | None = None
) -> Document:
    """The document in `data`, recognised by the keys that only one kind has, unless it is given.

    `beside` reads what it names by relative paths; without it such a file counts as
    one that is not there.
    """
    text = decode(data, spec, "document")
    kind = kind or content_kind(_values(text, spec))
    if kind is None:
        fail(
            "P451",
            "this is no manifest, profile, plan or trust file",
            place=spec,
            expected="a `[target]`, a `summary`, a `plan_sha256` or a `[key.NAME]`",
            hint="name a file that `power compile` reads or writes, or a list of trusted keys",
        )
    read = beside or _nothing_beside
    if kind == "manifest":
        manifest = parse_manifest(data, spec)
        effective, remarks = _with_profile(manifest, read)
        return Document(kind, spec, meaning(manifest.manifest), effective, remarks)
    if kind == "profile":
        profile = parse_profile(data, spec)
        bare = parse_manifest(_BARE, "any manifest")
        return Document(kind, spec, meaning(profile.profile), merge(bare, profile))
    if kind == "trust":
        return Document(kind, spec, _trust_content(data, spec, read))
    from power.plan import lock  # noqa: PLC0415 - manifests need no plan reader

    return Document(kind, spec, lock.loads(text, spec).body())


def _values(text: str, spec: str) -> Mapping[str, Any]:
    """The values by which a kind is told; a plan with conflict markers is told by its header."""
    from power.plan.lock import made_from  # noqa: PLC0415 - see `parse_document`

    if conflict_spans(text, spec) and made_from(text) is not None:
        return {"plan_sha256": ""}
    return parse(text, spec, "document")


def content_kind(values: Mapping[str, Any]) -> Kind | None:
    """What a parsed document is, by the keys that only one kind has; None if by none."""
    return kind_of(values) or ("trust" if isinstance(values.get("key"), dict) else None)


def _trust_content(data: bytes, spec: str, beside: Beside) -> dict[str, Any]:
    """Trusted keys by name: which key it really is, and what was decided about it."""
    from power.receipt.keys import parse_public  # noqa: PLC0415 - imports cryptography
    from power.receipt.trust import parse_trust  # noqa: PLC0415 - imports cryptography

    trust = parse_trust(data, spec, lambda reference: parse_public(beside(reference), reference))
    content: dict[str, Any] = {}
    for key in trust.keys:
        decided: dict[str, Any] = {"keyid": key.keyid}
        for name, time in (("not_before", key.not_before), ("not_after", key.not_after)):
            if time is not None:
                decided[name] = time.isoformat()
        if key.revoked is not None:
            decided["revoked"] = f"{key.revoked.at.isoformat()}: {key.revoked.reason}"
        content[key.name] = decided
    return {"schema": 1, "key": content}


def _with_profile(
    manifest: LoadedManifest, beside: Beside
) -> tuple[Effective, tuple[Diagnostic, ...]]:
    """What holds under a manifest; without its profile when that cannot be read."""
    reference = manifest.manifest.profile
    if reference is None:
        return merge(manifest, None), ()
    try:
        return merge(manifest, read_profile(reference, beside)), ()
    except PowerError as error:
        return merge(manifest, None), (
            Diagnostic(
                code="P457",
                message=f"the profile `{reference}` cannot be read, so what it sets is left out: "
                f"{error.diagnostics[0].message}",
                spans=(manifest.span("profile"),),
                severity="warning",
            ),
        )


def read_profile(reference: str, beside: Beside) -> LoadedProfile:
    """The profile that a manifest names: a path beside it, or a shipped one by name."""
    if reference.endswith(".toml"):
        return parse_profile(beside(reference), reference)
    path = profile_path(reference, Path())
    return parse_profile(read_bytes(path, "profile"), path.name)


def beside_file(path: Path) -> Beside:
    """Reads files relative to the folder of `path`; a profile only where it is truly below it."""

    def read(reference: str) -> bytes:
        named = path.parent / reference
        if reference.endswith(".toml"):
            refuse_link_outside(named, path.parent, None)
        return read_bytes(named, "file")

    return read


def beside_blob(commit: str, path: str, shown: str, folder: Path | None = None) -> Beside:
    """Reads files of a commit relative to the folder of `path` in it."""

    def read(reference: str) -> bytes:
        name = posixpath.join(posixpath.dirname(path), reference)
        data = blob(commit, name, f"{shown}:{name}", folder)
        if data is None:
            fail(
                "P454",
                f"`{shown}` holds no file `{name}`",
                place=f"{shown}:{path}",
                hint="commit the file together with the one that names it",
            )
        return data

    return read


def _nothing_beside(reference: str) -> bytes:
    fail("P101", f"nothing is beside this document, so neither is `{reference}`", hint="name files")


def _commit(revision: str, path: str, spec: str) -> str:
    if not revision or not path or revision.startswith("-") or not spec.isprintable():
        fail(
            "P455",
            "this names no file in a commit",
            place=escape(spec, 200),
            expected="`REV:path`, the revision not starting with `-`",
            hint="write it as `main:manifests/NAME.toml`",
        )
    if git("rev-parse", "--git-dir").returncode != 0:
        fail(
            "P452",
            "the working folder is in no git repository",
            place=spec,
            hint=f"there is no file `{escape(spec, 200)}` either: check the path",
        )
    return commit_of(revision, spec)
