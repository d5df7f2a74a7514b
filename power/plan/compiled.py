"""What compiling a manifest gives."""

from __future__ import annotations

from dataclasses import dataclass

from power.artifact.facts import HeaderFacts, PairFacts
from power.diagnostics import Diagnostic
from power.plan.memory import Memory
from power.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan, its lock file's text, and what a person should hear about it.

    draft and pair are None when the plan has no draft artifact, draft also where
    that is a table and no model; memory is None when it cannot be estimated for
    the target's architecture.
    """

    plan: Plan
    text: str
    warnings: tuple[Diagnostic, ...]
    target: HeaderFacts
    draft: HeaderFacts | None = None
    pair: PairFacts | None = None
    memory: Memory | None = None
