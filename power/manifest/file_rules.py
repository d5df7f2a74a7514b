"""Rules between the keys of one file: provenance, binding, shards, evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from power.diagnostics import Diagnostic
from power.manifest.model import Artifact, Manifest
from power.manifest.profile import Evidence, Profile
from power.manifest.source import Source

HUBS = ("huggingface.co", "hf.co")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_URL_REVISION = re.compile(r"/(?:resolve|blob|tree|raw|commit)/([^/]+)")


def manifest_rules(manifest: Manifest, source: Source) -> tuple[Diagnostic, ...]:
    """Findings P139, P141 and P142, in file order."""
    return (*_artifacts(manifest, source), *_binding(manifest, source))


def profile_rules(profile: Profile, source: Source) -> tuple[Diagnostic, ...]:
    """Findings P145 and P146, in file order."""
    return tuple(
        finding
        for index, entry in enumerate(profile.evidence)
        for finding in _evidence(entry, index, source)
    )


def _artifacts(manifest: Manifest, source: Source) -> Iterator[Diagnostic]:
    yield from _provenance("target", manifest.target, source)
    yield from _shards("target", manifest.target, source)
    if manifest.draft is not None:
        yield from _provenance("draft", manifest.draft, source)
        yield from _shards("draft", manifest.draft, source)


def _binding(manifest: Manifest, source: Source) -> Iterator[Diagnostic]:
    draft, target = manifest.draft, manifest.target
    if draft is None or draft.target_sha256 == target.sha256:
        return
    yield Diagnostic(
        code="P139",
        message="the draft was made for another target",
        spans=(
            source.span("draft", "target_sha256", label="the draft's target"),
            source.span("target", "sha256", label="this manifest's target"),
        ),
        expected=target.sha256,
        found=draft.target_sha256,
        hint="use the draft that was made for this target; do not edit the digest to fit",
    )


def _provenance(table: str, artifact: Artifact, source: Source) -> Iterator[Diagnostic]:
    revision = artifact.revision
    if artifact.source is None:
        if revision is not None:
            yield Diagnostic(
                code="P141",
                message=f"`{table}.revision` has no source",
                spans=(source.span(table, "revision"),),
                expected=f"`{table}.source` beside it",
                hint="add `source`, or leave `revision` out",
            )
        return
    url = urlsplit(artifact.source)
    host = (url.hostname or "").removeprefix("www.")
    if host not in HUBS:
        return
    if revision is None or not _COMMIT.fullmatch(revision):
        key = "source" if revision is None else "revision"
        yield Diagnostic(
            code="P141",
            message=f"`{table}` comes from a hub without an immutable revision",
            spans=(source.span(table, key),),
            expected="`revision`, the 40 hexadecimal digits of a commit",
            found=revision,
            hint="branches and tags move: copy the commit from the hub's history page",
        )
        return
    in_url = _URL_REVISION.search(url.path)
    if in_url is not None and in_url.group(1) != revision:
        yield Diagnostic(
            code="P141",
            message=f"`{table}.source` and `{table}.revision` name different revisions",
            spans=(
                source.span(table, "source", label="one revision"),
                source.span(table, "revision", label="another"),
            ),
            expected=revision,
            found=in_url.group(1),
            hint="put the commit into the address, or name the repository only",
        )


def _shards(table: str, artifact: Artifact, source: Source) -> Iterator[Diagnostic]:
    if artifact.shards is None:
        return
    first = artifact.shards[0]
    for key in ("path", "bytes", "sha256"):
        if getattr(first, key) != getattr(artifact, key):
            yield Diagnostic(
                code="P142",
                message=f"the first shard is not the file that `{table}` names",
                spans=(
                    source.span(table, "shards", 0, key, label="the first shard"),
                    source.span(table, key, label=f"`{table}` itself"),
                ),
                expected=str(getattr(artifact, key)),
                found=str(getattr(first, key)),
                hint=f"list every file in order: the first repeats `{table}`'s own facts",
            )
    seen: dict[str, int] = {}
    for index, shard in enumerate(artifact.shards):
        # Case apart: some systems would read one file for both.
        earlier = seen.setdefault(shard.path.casefold(), index)
        if earlier != index:
            yield Diagnostic(
                code="P142",
                message=f"`{table}` lists one shard twice",
                spans=(
                    source.span(table, "shards", index, "path", label="and again here"),
                    source.span(table, "shards", earlier, "path", label="first listed here"),
                ),
                found=shard.path,
                hint="list each file of the split once, in order",
            )


def _evidence(entry: Evidence, index: int, source: Source) -> Iterator[Diagnostic]:
    needed, foreign = (
        (("source",), ("report", "report_sha256"))
        if entry.by == "reported"
        else (("artifact_sha256", "report", "report_sha256"), ("source",))
    )
    for key in needed:
        if getattr(entry, key) is None:
            yield Diagnostic(
                code="P145",
                message=f"{entry.by} evidence without `{key}`",
                spans=(source.span("evidence", index, "by"),),
                expected=f"`{key}` in this entry",
                hint="a number that nobody can look up is no evidence: name where it is written",
            )
    for key in foreign:
        if getattr(entry, key) is not None:
            yield Diagnostic(
                code="P146",
                message=f"`{key}` in {entry.by} evidence",
                spans=(
                    source.span("evidence", index, key, label="does not go with"),
                    source.span("evidence", index, "by", label="this"),
                ),
                hint="`reported` has a source; `measured` has a report that this project wrote",
            )
