"""The review of a change: a work tree against the commit that its history left.

Reads files and git, and loads no artifact and no engine, so it runs in a CI that has
neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from power.diagnostics import Diagnostic
from power.review.consequences import Class, Evidence
from power.review.diff import Diff
from power.review.entries import Entry, entries
from power.review.git import WorkTree
from power.review.household import Household
from power.review.measured import check_certificate, check_measured
from power.review.plans import Judged
from power.review.survey import Tree


@dataclass(frozen=True, slots=True)
class Review:
    """What a change touches, the plans that it concerns, and what stands against it.

    base: the revision as it was asked for. commit: the commit that was compared
    with, where the history of HEAD left that of `base`. problems: of everything,
    the errors first. unjudged: what could not be judged, in words.
    """

    base: str
    commit: str
    entries: tuple[Entry, ...]
    plans: tuple[Judged, ...]
    problems: tuple[Diagnostic, ...]
    unjudged: tuple[str, ...]

    @property
    def diffs(self) -> tuple[Diff, ...]:
        """Of all documents that have two sides."""
        return tuple(entry.diff for entry in self.entries if entry.diff is not None)

    @property
    def voids(self) -> tuple[Evidence, ...]:
        """The evidence that all changes together make void."""
        lost = {kind for found in self.diffs for kind in found.voids}
        return tuple(kind for kind in Evidence if kind in lost)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The defects."""
        return tuple(found for found in self.problems if found.severity == "error")

    def count(self, kind: Class) -> int:
        """How many changes there are of one class."""
        return sum(len(found.of(kind)) for found in self.diffs)

    def with_problems(self, more: Sequence[Diagnostic]) -> Review:
        """The same with further problems."""
        return replace(self, problems=_sorted([*self.problems, *more]))


def review(folder: Path, base: str, only: Sequence[str] = ()) -> Review:
    """Review the work tree around `folder` against `base`; `only` are pathspecs from its root.

    Raises PowerError: P452 no work tree, P453 and P455 no such revision.
    """
    work = WorkTree(folder, only)
    commit = work.fork_point(work.commit(base))
    tree = Tree(work, commit)
    now = tree.now()
    touched = entries(tree, now)
    household = Household(tree, now, touched)
    plans = tuple(household.judged())
    evidence = [
        check_measured(path, profile, tree.root, household.by_digest)
        for path, profile in household.profiles_to_check()
    ] + [
        check_certificate(plan, certificate, tree.root)
        for plan, certificate in household.certificates_to_check()
    ]
    problems = [
        *(found for entry in touched for found in entry.problems if entry.kind != "plan"),
        *(w for entry in touched if entry.diff is not None for w in entry.diff.warnings),
        *(found for plan in plans for found in plan.problems),
        *(found for checked in evidence for found in checked.problems),
    ]
    unjudged = [
        *(f"{plan.path}: {text}" for plan in plans for text in plan.unjudged),
        *(text for checked in evidence for text in checked.unjudged),
    ]
    return Review(
        base, commit, tuple(touched), plans, _sorted(problems), tuple(dict.fromkeys(unjudged))
    )


def _sorted(problems: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Errors first; each once."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda found: found.severity != "error"))
