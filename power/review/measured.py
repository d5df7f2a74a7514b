"""Whether what was measured is still about something that is here.

A report, or a certificate, names the plans that it was measured with by digest. It
holds as long as such a plan is in the work tree and its profile says what it said.
Signatures are not looked at: whom to believe is the verifier's to say.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from power.diagnostics import Diagnostic, PowerError, Span
from power.manifest.load import LoadedProfile
from power.manifest.meaning import profile_sha256
from power.plan.lock import plan_sha256
from power.plan.places import key_span
from power.review.survey import Found

_LARGEST = 64 << 20  # bytes of a report that is read
_TUNING = "power.tune-report.v1"

Plans = Mapping[str, dict[str, Any]]
"""The content of every plan that is there, by its digest."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What stands against the evidence of one profile or plan, and what could not be judged."""

    problems: tuple[Diagnostic, ...] = field(default=())
    unjudged: tuple[str, ...] = field(default=())


def check_measured(path: str, profile: LoadedProfile, root: Path, plans: Plans) -> Checked:
    """Check every `measured` entry of the profile at `path`, from `root`.

    Findings P466 (no such report), P467 (another report), P468 (its plan is gone), P469
    (its plan was made with what the profile said before; of a tuning, it chose otherwise).
    """
    problems: list[Diagnostic] = []
    unjudged: list[str] = []
    now = profile_sha256(profile.profile)
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
        said = _json(data)
        if isinstance(said, dict) and said.get("schema") == _TUNING:
            problems += _against_choice(said.get("chosen"), profile, name, at)
            continue
        named = sorted(plans_of(data))
        if not named:
            unjudged.append(f"which plan `{name}` was measured with: it names none")
        for digest in named:
            problems += _against(digest, plans, (profile.profile.name, now), name, at)
    return Checked(tuple(problems), tuple(unjudged))


def check_certificate(plan: Found, certificate: str, root: Path) -> Checked:
    """Check the certificate at `certificate` beside a plan: P468 where it is another plan's."""
    data = _read(root / certificate)
    if data is None or plan.document is None:
        return Checked()
    named = plans_of(data)
    if not named:
        return Checked(unjudged=(f"which plan `{certificate}` is about: it names none",))
    digest = plan_sha256(plan.document.content)
    if digest in named:
        return Checked()
    (at,) = key_span(plan.path, plan.text, ("lock", "plan_sha256"))
    return Checked(
        (
            Diagnostic(
                code="P468",
                message=f"the certificate `{certificate}` is about another plan",
                spans=(at,),
                expected=", ".join(sorted(named)),
                found=digest,
                hint="certify the plan that is here now, or remove the certificate",
            ),
        )
    )


def _against(
    digest: str, plans: Plans, profile: tuple[str, str], report: str, at: Span
) -> Iterator[Diagnostic]:
    """What stands against one plan that `report` names."""
    plan = plans.get(digest)
    if plan is None:
        said = f"`{report}` was measured with plan {digest[:12]}…, which is gone"
        yield _problem("P468", said, at)
        return
    name, now = profile
    made_with = plan.get("profile")
    if made_with is not None and made_with["name"] == name and made_with["sha256"] != now:
        said = f"`{report}` was measured with what the profile said before"
        yield _problem("P469", said, at)


def _against_choice(
    chosen: object, profile: LoadedProfile, report: str, at: Span
) -> Iterator[Diagnostic]:
    """What stands against the report of a tuning, whose plans no file holds: what it chose."""
    speculation = profile.profile.speculation
    now: dict[str, Any] = {"strategy": speculation.spec_mode}
    then: Mapping[str, Any] = {"strategy": "off"}
    if isinstance(chosen, dict):
        then = chosen
        now["draft_max"] = speculation.spec_draft_max
        now["controller"] = speculation.width_controller
        now["shape"] = profile.profile.graph.shape
    other = [key for key, value in now.items() if then.get(key) != value]
    if other:
        yield replace(
            _problem("P469", f"`{report}` chose another setting than the profile says now", at),
            expected=", ".join(f"{key} {then.get(key)}" for key in other),
            found=", ".join(f"{key} {now[key]}" for key in other),
            hint="tune again, or take the entry out",
        )


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


def plans_of(report: bytes) -> set[str]:
    """Every `plan_sha256` that a report, or what was signed, names at whatever depth."""
    waiting: list[Any] = [_json(_payload(report) or report)]
    named: set[str] = set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            digest = item.get("plan_sha256")
            named |= {digest} if isinstance(digest, str) else set()
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return named


def _json(data: bytes) -> Any:
    """What the JSON in `data` says; None for what is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _payload(data: bytes) -> bytes | None:
    """What a signed document says; None for one that is not signed."""
    from power.receipt.bundle import decode  # noqa: PLC0415 - imports cryptography

    try:
        return decode(data).payload
    except PowerError:
        return None


def reports_of(path: str, profile: LoadedProfile) -> Iterator[str]:
    """The report files, from the root, that the profile at `path` names."""
    for entry in profile.profile.evidence:
        if entry.report is not None:
            yield posixpath.join(posixpath.dirname(path), entry.report)
