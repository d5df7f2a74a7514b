"""Whether the lock file is what compiling now gives, and whether it may be written over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from power.diagnostics import Diagnostic, PowerError, fail
from power.plan import files, lock
from power.plan.compiled import Compiled
from power.plan.places import first_line_difference, key_span

_MOST_KEYS = 12
_EDITED = {"P432", "P434", "P435", "P436"}
_AGAIN = "run `power compile`, and `power diff` to review what changed"


def default_lock_path(manifest: Path) -> Path:
    """Where a manifest's lock lies: `plan.lock` beside `manifest.toml`, else NAME.lock."""
    if manifest.name == "manifest.toml":
        return manifest.with_name("plan.lock")
    name = manifest.name.removesuffix(".toml")
    return manifest.with_name(f"{name}.lock")


def check_lock(path: Path, compiled: Compiled) -> None:
    """Return when the file at `path` holds exactly the bytes of `compiled`.

    Raises PowerError: P430 it cannot be read, P431 conflict markers, P433 another
    format version, P437 stale (a diagnostic for each fact that changed), P438 edited.
    """
    text = lock.read_text(path)
    if text == compiled.text:
        return
    try:
        old = lock.loads(text, str(path))
    except PowerError as error:
        if error.diagnostics[0].code not in _EDITED:
            raise
        raise _edited(text, path, compiled) from error
    raise PowerError(tuple(_stale(text, path, old.body(), compiled.plan.body())))


def _edited(text: str, path: Path, compiled: Compiled) -> PowerError:
    return PowerError(
        (
            Diagnostic(
                code="P438",
                message="the plan was edited: Power did not write these bytes",
                spans=first_line_difference(str(path), text, compiled.text),
                hint="run `power compile` to make it again; change the manifest, not the plan",
            ),
        )
    )


def _stale(
    text: str, path: Path, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    before, after = dict(_facts(old)), dict(_facts(new))
    changed = [key for key in before | after if before.get(key) != after.get(key)]
    for key in changed[:_MOST_KEYS]:
        spans = key_span(str(path), text, key) if key in before else ()
        yield Diagnostic(
            code="P437",
            message=f"the plan is stale: `{'.'.join(key)}` changed",
            spans=spans,
            place=None if spans else str(path),
            expected=_shown(after.get(key)),
            found=_shown(before.get(key)),
            hint=_AGAIN,
        )
    if len(changed) > _MOST_KEYS:
        yield Diagnostic(
            code="P437",
            message=f"the plan is stale: {len(changed) - _MOST_KEYS} more facts changed",
            place=str(path),
            hint=_AGAIN,
        )


def _facts(
    table: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _facts(value, (*path, key))
        else:
            yield (*path, key), value


def _shown(value: Any) -> str:
    return "absent" if value is None else json.dumps(value, ensure_ascii=False)


def write_lock(path: Path, compiled: Compiled) -> bool:
    """Write the lock file; False when it holds these bytes already and was left alone.

    An existing file is overwritten only when `power compile` wrote it, told by its
    first line, so also when it is stale, edited or full of conflict markers.
    Raises PowerError: P439 something else is there, P441 it cannot be written.
    """
    if not path.exists() and not path.is_symlink():
        files.write_atomic(path, compiled.text.encode(), overwrite=False)
        return True
    try:
        text = lock.read_text(path)
    except PowerError:
        text = ""
    if text == compiled.text:
        return False
    if not text.startswith((lock.HEADER_MARK, "<<<<<<< ")):
        fail(
            "P439",
            "the file was not written by `power compile` and is not overwritten",
            place=str(path),
            hint="choose another place with `-o`, or move the file away",
        )
    files.write_atomic(path, compiled.text.encode(), overwrite=True)
    return True
