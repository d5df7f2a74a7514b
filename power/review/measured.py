"""Whether evidence marked measured still has its report, and the report its plan."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from power.diagnostics import Diagnostic, Span
from power.manifest.load import LoadedProfile

_LARGEST = 64 << 20  # bytes of a report that is read


@dataclass(frozen=True, slots=True)
class Checked:
    """What stands against the evidence of one profile, and what could not be judged."""

    problems: tuple[Diagnostic, ...] = field(default=())
    unjudged: tuple[str, ...] = field(default=())


def check_measured(
    path: str, profile: LoadedProfile, root: Path, plans: Collection[str]
) -> Checked:
    """Check every `measured` entry of the profile at `path`, from `root`.

    plans: the digests of all plans that are there. Findings P466 (no such report),
    P467 (another report), P468 (its plan is gone).
    """
    problems: list[Diagnostic] = []
    unjudged: list[str] = []
    for index, entry in enumerate(profile.profile.evidence):
        if entry.by != "measured" or entry.report is None:
            continue
        name = posixpath.join(posixpath.dirname(path), entry.report)
        at = profile.span("evidence", index, "report")
        data = _read(root / name)
        if data is None:
            problems.append(_problem("P466", f"the report `{name}` is not there", at))
            continue
        digest = hashlib.sha256(data).hexdigest()
        if digest != entry.report_sha256:
            problems.append(
                Diagnostic(
                    code="P467",
                    message=f"the report `{name}` is not the one that this evidence names",
                    spans=(profile.span("evidence", index, "report_sha256"),),
                    expected=entry.report_sha256,
                    found=digest,
                    hint="measure again, and write what the new report says with its digest",
                )
            )
            continue
        named = sorted(_plans_of(data))
        if not named:
            unjudged.append(f"which plan `{name}` was measured with: it names none")
        problems += [
            _problem("P468", f"`{name}` was measured with plan {digest[:12]}…, which is gone", at)
            for digest in named
            if digest not in plans
        ]
    return Checked(tuple(problems), tuple(unjudged))


def _problem(code: str, message: str, span: Span) -> Diagnostic:
    return Diagnostic(
        code=code,
        message=f"measured evidence is void: {message}",
        spans=(span,),
        hint="measure the plan that is here now, or take the entry out",
    )


def _read(path: Path) -> bytes | None:
    """The bytes of a regular file of at most 64 MiB; None where there is none."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _plans_of(report: bytes) -> set[str]:
    """Every `plan_sha256` that a JSON report names, at whatever depth."""
    try:
        waiting = [json.loads(report)]
    except (ValueError, RecursionError):
        return set()
    found: set[str] = set()
    while waiting:
        item: Any = waiting.pop()
        if isinstance(item, dict):
            digest = item.get("plan_sha256")
            found |= {digest} if isinstance(digest, str) else set()
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return found


def reports_of(path: str, profile: LoadedProfile) -> Iterator[str]:
    """The report files, from the root, that the profile at `path` names."""
    for entry in profile.profile.evidence:
        if entry.report is not None:
            yield posixpath.join(posixpath.dirname(path), entry.report)
