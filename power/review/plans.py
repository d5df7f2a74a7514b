"""Whether a plan is the one that its manifest gives, judged without the artifacts.

A plan holds digests of what manifest and profile said, and its own. So a stale plan,
an edited one and one whose digest was made to fit are told by the files alone. What
is left is said: whether the artifacts are what the plan states of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from power.diagnostics import Diagnostic, PowerError, Span
from power.manifest.load import LoadedProfile
from power.manifest.meaning import meaning_sha256, profile_sha256
from power.manifest.merge import Effective, merge
from power.manifest.shipped import profile_names
from power.plan import lock
from power.plan.check import facts
from power.plan.compile import default_lock_path
from power.plan.model import Plan
from power.plan.places import first_line_difference, key_span
from power.plan.restate import restate

State = Literal["current", "stale", "edited", "conflict", "unreadable", "missing", "orphan"]
_EDITED = {"P432", "P434", "P435", "P436", "P424"}
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of one plan. `path` and `manifest` are from the root.

    `unjudged` says in words what the files alone do not tell.
    """

    path: str
    manifest: str | None
    state: State
    problems: tuple[Diagnostic, ...] = field(default=())
    unjudged: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Sources:
    """A manifest at `path` and what holds under it; `other` finds a profile by its name."""

    path: str
    effective: Effective
    other: Mapping[str, LoadedProfile]


def whole_file(path: str, text: str = "") -> Span:
    """The first line of a file, for what concerns all of it."""
    source = text.split("\n", 1)[0].rstrip("\r")
    return Span(path, 1, 1, max(1, len(source)), source)


def judge_plan(path: str, text: str, sources: Sources | None, before: str | None) -> Judged:
    """Judge the plan in `text`; `before` is its text in the commit, where it was there."""
    try:
        plan = lock.loads(text, path)
    except PowerError as error:
        return _unreadable(path, text, error, sources, before)
    if sources is None:
        return Judged(path, None, "orphan", (_orphan(path, text, plan),))
    effective, notes = _as_compiled(sources, plan)
    stale = tuple(_stale(path, text, plan, sources, effective))
    if stale:
        return Judged(path, sources.path, "stale", stale)
    forged = tuple(_forged(path, text, plan, sources, effective)) if not notes else ()
    if forged:
        return Judged(path, sources.path, "edited", forged)
    artifacts = (
        f"whether the artifacts are what the plan states of them: where they are, `power compile "
        f"{sources.path} --check` compares"
    )
    return Judged(path, sources.path, "current", (), (*notes, artifacts))


def missing(path: str, sources: Sources, *, was_there: bool) -> Judged:
    """A manifest without its plan: an error where the change took the plan away."""
    gone = "its plan is gone" if was_there else "it has no plan, and others here have one"
    found = Diagnostic(
        code="P463",
        message=f"the manifest `{sources.path}` changed, and {gone}",
        spans=(whole_file(sources.path, sources.effective.loaded.text),),
        expected=f"`{path}`",
        hint=f"run `power compile {sources.path}` and commit the plan",
        severity="error" if was_there else "warning",
    )
    return Judged(path, sources.path, "missing", (found,))


def _unreadable(
    path: str, text: str, error: PowerError, sources: Sources | None, before: str | None
) -> Judged:
    manifest = None if sources is None else sources.path
    first = error.diagnostics[0]
    if first.code == "P431":
        return Judged(path, manifest, "conflict", error.diagnostics)
    if first.code not in _EDITED:
        return Judged(path, manifest, "unreadable", error.diagnostics)
    spans = first.spans or (whole_file(path, text),)
    if before is not None and before != text:
        spans = (*first_line_difference(path, text, before), *spans)
    found = Diagnostic(
        code="P462",
        message=f"the plan was edited by hand: {first.message} ({first.code})",
        spans=spans[:1],
        expected="the bytes that `power compile` wrote",
        hint=f"change the manifest, then run `power compile {manifest or 'MANIFEST'}`",
    )
    return Judged(path, manifest, "edited", (found,))


def _orphan(path: str, text: str, plan: Plan) -> Diagnostic:
    return Diagnostic(
        code="P464",
        message="no manifest here goes with this plan, so it cannot be made again",
        spans=key_span(path, text, ("manifest", "name")),
        expected=f"a manifest named `{plan.manifest.name}`",
        hint="commit the manifest, or remove the plan",
        severity="warning",
    )


def _as_compiled(sources: Sources, plan: Plan) -> tuple[Effective, tuple[str, ...]]:
    """What held when the plan was compiled, `--profile` included, and what of it is unknown."""
    effective = sources.effective
    named = effective.profile
    wanted = None if plan.profile is None else plan.profile.name
    if wanted is None or (named is not None and named.profile.name == wanted):
        return effective, ()
    if effective.loaded.manifest.profile is not None and named is None:
        return effective, ("whether the profile still says the same: it cannot be read",)
    other = sources.other.get(wanted)
    if other is None:
        return effective, (
            f"what the profile `{wanted}` says, with which it was compiled: it is not here",
        )
    return merge(effective.loaded, other), ()


def _again(path: str, plan: Plan, sources: Sources) -> str:
    """The command that makes the plan at `path` again."""
    words = ["power", "compile", sources.path]
    named, wanted = sources.effective.profile, plan.profile
    if wanted is not None and (named is None or named.profile.name != wanted.name):
        own = None if wanted.name in profile_names() else sources.other.get(wanted.name)
        words += ["--profile", wanted.name if own is None else own.source.name]
    if path != default_lock_path(Path(sources.path)).as_posix():
        words += ["-o", path]
    return shlex.join(words)


def _stale(
    path: str, text: str, plan: Plan, sources: Sources, effective: Effective
) -> Iterator[Diagnostic]:
    now = meaning_sha256(effective.loaded.manifest)
    if plan.manifest.sha256 != now:
        yield Diagnostic(
            code="P460",
            message=f"the plan is stale: the manifest `{sources.path}` says something else now",
            spans=key_span(path, text, ("manifest", "sha256")),
            expected=now,
            found=plan.manifest.sha256,
            hint=f"run `{_again(path, plan, sources)}` and commit the plan with it",
        )
    profile = effective.profile
    if plan.profile is None or profile is None or profile.profile.name != plan.profile.name:
        return
    now = profile_sha256(profile.profile)
    if plan.profile.sha256 != now:
        yield Diagnostic(
            code="P461",
            message=f"the plan is stale: its profile `{plan.profile.name}` says something else now",
            spans=key_span(path, text, ("profile", "sha256")),
            expected=now,
            found=plan.profile.sha256,
            hint=f"run `{_again(path, plan, sources)}`: a profile changes together with its plans",
        )


def _forged(
    path: str, text: str, plan: Plan, sources: Sources, effective: Effective
) -> Iterator[Diagnostic]:
    """The digests fit, but the manifest gives another plan: somebody sealed an edit."""
    hint = (
        f"run `{_again(path, plan, sources)}`; where that gives the same plan, another version of "
        "Power made it"
    )
    try:
        again = restate(effective, plan)
    except PowerError as error:
        yield Diagnostic(
            code="P465",
            message="the plan does not follow from its manifest, which does not compile with the "
            f"facts that the plan states: {error.diagnostics[0].message}",
            spans=key_span(path, text, ("manifest", "sha256")),
            hint=hint,
        )
        return
    stated, derived = dict(facts(plan.body())), dict(facts(again.body()))
    for key in [key for key in stated | derived if stated.get(key) != derived.get(key)][:_SHOWN]:
        yield Diagnostic(
            code="P465",
            message=f"the plan does not follow from its manifest: `{'.'.join(key)}` differs",
            spans=key_span(path, text, key) or (whole_file(path, text),),
            expected=str(derived.get(key, "absent")),
            found=str(stated.get(key, "absent")),
            hint=hint,
        )
