"""What headers say of a target, of its draft and of both together, in the shape plans hold."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from power.artifact.contracts.pair import check_pair, draft_facts
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.header import Header
from power.artifact.target import check_target
from power.diagnostics import Diagnostic, PowerError


@dataclass(frozen=True, slots=True)
class JudgedDraft:
    """A draft whose contract holds.

    header: None for a table (kind `mtp`). d2t_sha256: of the raw bytes of its `d2t` table.
    """

    header: HeaderFacts | None
    pair: PairFacts
    d2t_sha256: str | None


@dataclass(frozen=True, slots=True)
class Judged:
    """A target that an engine can run, and its draft if there is one."""

    target: HeaderFacts
    draft: JudgedDraft | None


def judge(target: Header, draft: Header | None, kind: str | None) -> Judged:
    """Facts of the target and, with a draft of `kind`, its contract.

    Raises PowerError P30x to P33x: what is wrong with either, or with both together.
    """
    problems: list[Diagnostic] = []
    facts: HeaderFacts | None = None
    judged: JudgedDraft | None = None
    try:
        facts = check_target(target)
    except PowerError as error:
        problems += error.diagnostics
    if draft is not None and kind is not None:
        try:
            header = draft_facts(kind, draft)
            if facts is not None:
                judged = JudgedDraft(header, check_pair(kind, draft, target), _d2t_sha256(draft))
        except PowerError as error:
            problems += error.diagnostics
    if problems or facts is None:
        raise PowerError(tuple(problems))
    return Judged(facts, judged)


def _d2t_sha256(draft: Header) -> str | None:
    table = draft.contents.get("d2t")
    return None if table is None else hashlib.sha256(table).hexdigest()


def judge_native(target: Header) -> PairFacts:
    """What the target's own prediction block can do. Raises PowerError P33x when it cannot."""
    return check_pair("mtp", target, target)
