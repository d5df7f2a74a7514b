"""Compile a manifest: read, open, hash, judge, and hand the facts to the pure compiler."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from power.artifact.facts import HeaderFacts
from power.artifact.hashing import hash_files
from power.artifact.header import Header
from power.artifact.target import unproven
from power.diagnostics import Diagnostic, PowerError, Span, fail
from power.manifest.effective import load_effective
from power.manifest.files import UnreadableError, read_regular
from power.manifest.merge import Effective
from power.plan import files, lock
from power.plan.artifacts import (
    Headers,
    Pinned,
    PinnedFile,
    Progress,
    check_digests,
    headers_of,
    opened,
)
from power.plan.capabilities import EngineFacts, InstalledEngine
from power.plan.compiled import Compiled
from power.plan.compiler import DraftFacts, SpansOf, compile_plan, resolve
from power.plan.inputs import inputs
from power.plan.judge import judge, judge_native
from power.plan.memory import estimate
from power.plan.model import Plan


def compile_manifest(
    path: Path,
    *,
    profile: str | None,
    roots: Sequence[Path],
    engine: InstalledEngine,
    progress: Progress | None = None,
) -> Compiled:
    """The plan for the manifest at `path`.

    profile: replaces the one that the manifest names. roots: where artifacts are
    looked up after the manifest's own folder. progress: (bytes hashed, bytes in all).

    With `spec_mode = "off"` a declared draft is neither opened nor recorded: a
    run that proposes nothing does not depend on it.

    Raises PowerError with everything of the stage that failed: manifest and
    profile (P1xx), strategy against the engine (P40x), files and sizes (P22x,
    P444), digests (P231), headers (P20x), semantics and draft contract (P3xx),
    rules between settings and facts (P4xx).
    """
    effective = load_effective(path, profile)
    return compile_effective(effective, path, roots=roots, engine=engine, progress=progress)


def compile_effective(
    effective: Effective,
    path: Path,
    *,
    roots: Sequence[Path],
    engine: InstalledEngine,
    progress: Progress | None = None,
) -> Compiled:
    """The plan for settings that were read, or put together, for the manifest at `path`.

    As `compile_manifest`, but for what that raises while it reads (P1xx).
    """
    spans_of = _spans_of(effective)
    resolve(  # before anything large is read: as if the target had all a header can offer
        effective.settings,
        engine,
        native_lacks=None,
        draft_kind=None if effective.draft is None else effective.draft.kind,
        spans_of=spans_of,
    )
    _check_grammar(effective, engine, spans_of)
    artifacts: list[tuple[str, Pinned]] = [("target", effective.target)]
    if effective.draft is not None and effective.requested != "off":
        artifacts.append(("draft", effective.draft))
    with opened(artifacts, [path.parent, *roots]) as pinned:
        headers = _verified_headers(pinned, progress)
    return _compile(effective, headers, engine, spans_of)


def _check_grammar(effective: Effective, engine: InstalledEngine, spans_of: SpansOf) -> None:
    """Refuse (P526) a grammar that the engine would not take once the model is loaded."""
    grammar = effective.settings.sampling.grammar
    fault = None if grammar is None else engine.grammar_fault(grammar)
    if fault is not None:
        fail(
            "P526",
            "the grammar is no GBNF that the engine can use",
            spans=spans_of("sampling", "grammar"),
            found=fault,
            hint="mend `sampling.grammar`; lines and columns are counted from its first character",
        )


def _spans_of(effective: Effective) -> SpansOf:
    def spans_of(section: str, key: str) -> tuple[Span, ...]:
        span = effective.span(section, key)
        return () if span is None else (span,)

    return spans_of


def _verified_headers(pinned: Sequence[PinnedFile], progress: Progress | None) -> Headers:
    """Headers of files whose digests fit. A wrong digest explains a broken header, so it wins.

    Hashing stays in this thread, where an interruption from the keyboard arrives.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="power-header") as pool:
        reading = pool.submit(headers_of, [(p.whose, p.file) for p in pinned])
        check_digests(pinned, hash_files([p.file for p in pinned], progress))
        return reading.result()


def _compile(
    effective: Effective, headers: Headers, engine: EngineFacts, spans_of: SpansOf
) -> Compiled:
    pinned = effective.draft
    judged = judge(headers.target, headers.draft, None if pinned is None else pinned.kind)
    draft = None
    if pinned is not None and judged.draft is not None:
        found = judged.draft
        draft = DraftFacts(pinned, found.header, found.pair, found.d2t_sha256)
    plan = compile_plan(
        inputs(
            effective,
            target=judged.target,
            draft=draft,
            engine=engine,
            native_lacks=_native_lacks(effective, headers.target, judged.target),
        ),
        spans_of,
    )
    return Compiled(
        plan=plan,
        text=lock.dumps(plan),
        warnings=tuple(_warnings(plan, headers, spans_of)),
        target=judged.target,
        draft=None if draft is None else draft.header,
        pair=None if draft is None else draft.pair,
        memory=estimate(plan, headers.target, None if plan.draft is None else headers.draft),
    )


def _native_lacks(effective: Effective, header: Header, facts: HeaderFacts) -> str | None:
    """Why `auto` may not use the target's native block; for `mtp` by name, that is an error."""
    if facts.nextn_layers == 0 or effective.implied not in {None, "mtp"}:
        return None
    try:
        judge_native(header)
    except PowerError as error:
        if effective.implied == "mtp":
            raise
        return f"its native MTP block cannot be used: {error.diagnostics[0].message}"
    return None


def _warnings(plan: Plan, headers: Headers, spans_of: SpansOf) -> Iterator[Diagnostic]:
    """What to know about the models of a plan that may all the same be run."""
    yield from _unproven("target", headers.target, spans_of)
    if plan.draft is not None and headers.draft is not None:
        if plan.draft.kind == "draft-model":  # a contract knows every tensor of the others
            yield from _unproven("draft", headers.draft, spans_of)
        yield from _differences(plan.draft.contract.notes, spans_of)


def _unproven(whose: str, header: Header, spans_of: SpansOf) -> Iterator[Diagnostic]:
    found = unproven(header)
    if found is not None:
        yield Diagnostic(
            code="P308",
            message=f"the {whose} is {found}, of which only the engine knows every tensor",
            spans=spans_of(whose, "path"),
            hint="a file from somebody you do not know may crash the engine; no crash is signed",
            severity="warning",
        )


def _differences(notes: Sequence[str], spans_of: SpansOf) -> Iterator[Diagnostic]:
    for note in notes:
        yield Diagnostic(
            code="P425",
            message=f"the draft differs from the target where it may: {note}",
            spans=spans_of("draft", "path"),
            severity="warning",
        )


def default_lock_path(manifest: Path) -> Path:
    """Where a manifest's lock lies: `plan.lock` beside `manifest.toml`, else NAME.lock."""
    if manifest.name == "manifest.toml":
        return manifest.with_name("plan.lock")
    return manifest.with_name(manifest.name.removesuffix(".toml") + ".lock")


def write_lock(path: Path, compiled: Compiled) -> bool:
    """Write the lock file; False when it holds these bytes already and was left alone.

    An existing file is overwritten only when `power compile` wrote it for this manifest
    (`lock.made_from`): so also when it is stale, edited, or holds conflict markers.
    Raises PowerError: P430 what is there cannot be read, P439 it is something else,
    P441 the plan cannot be written.
    """
    data = compiled.text.encode()
    if not os.path.lexists(path):
        try:
            files.write_atomic(path, data, overwrite=False)
        except PowerError as error:  # another compile may have been faster: look at its file
            if error.diagnostics[0].code != "P440":
                raise
        else:
            return True
    text = _present(path)
    if text == compiled.text:
        return False
    _check_owner(path, text, compiled)
    files.write_atomic(path, data, overwrite=True)
    return True


def _present(path: Path) -> str:
    """The text of the file that is there; of one that is no text, something that is no plan."""
    try:
        return read_regular(path, lock.SIZE_LIMIT).decode("utf-8", "replace")
    except UnreadableError as error:
        if error.why != "refused":
            return ""
        fail(
            "P430",
            f"the file that is there cannot be read, so it is not overwritten: {error}",
            place=str(path),
            hint="check its permissions, or choose another place with `-o`",
        )


def _check_owner(path: Path, text: str, compiled: Compiled) -> None:
    """Refuse (P439) a file that is not the plan of this manifest: it is somebody's work."""
    owner = lock.made_from(text)
    if owner is None:
        fail(
            "P439",
            "the file was not written by `power compile` and is not overwritten",
            place=str(path),
            hint="choose another place with `-o`, or move the file away",
        )
    if owner != compiled.plan.manifest.name:
        fail(
            "P439",
            "the file is the plan of another manifest and is not overwritten",
            place=str(path),
            expected=f"a plan of the manifest `{compiled.plan.manifest.name}`",
            found=f"the plan of the manifest `{owner}`",
            hint="choose another place with `-o`; if the manifest was renamed, remove the old plan",
        )
