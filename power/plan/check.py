"""Whether the lock file is what compiling now gives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from power.diagnostics import Diagnostic, PowerError
from power.plan import lock
from power.plan.compiled import Compiled
from power.plan.places import first_line_difference, key_span

_MOST_KEYS = 12
_EDITED = {"P432", "P434", "P435", "P436"}
_AGAIN = "run `power compile`, and `power diff` to review what changed"
_OTHER = "name the plan of this manifest with `-o`; if the manifest was renamed, compile it anew"


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
    before, after = dict(facts(old)), dict(facts(new))
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
            hint=_OTHER if key == ("manifest", "name") else _AGAIN,
        )
    if len(changed) > _MOST_KEYS:
        yield Diagnostic(
            code="P437",
            message=f"the plan is stale: {len(changed) - _MOST_KEYS} more facts changed",
            place=str(path),
            hint=_AGAIN,
        )


def facts(
    table: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of a plan's `table`, each with the keys that lead to it, in their order."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from facts(value, (*path, key))
        else:
            yield (*path, key), value


def _shown(value: Any) -> str:
    return "absent" if value is None else json.dumps(value, ensure_ascii=False)
