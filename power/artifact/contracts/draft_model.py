"""A whole, smaller model as the draft: it must speak exactly the target's tokens."""

from __future__ import annotations

from power.artifact.comparison import compare
from power.artifact.contracts.common import target_of
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.findings import Findings
from power.artifact.header import Header
from power.artifact.reader import Reader
from power.artifact.target import CHAT_TEMPLATE, check_target
from power.artifact.vocabulary import read_vocabulary
from power.diagnostics import PowerError


def check(draft: Header, target: Header) -> PairFacts:
    """Check the draft as a model and its vocabulary against the target's.

    A different chat template is allowed and noted: only the target's is used.
    """
    findings = Findings()
    side = target_of(target)
    vocabulary = read_vocabulary(Reader(draft, Findings()))
    notes: tuple[str, ...] = ()
    if vocabulary is not None:
        notes = compare(findings, vocabulary, side.vocabulary)
    try:
        check_target(draft)
    except PowerError as error:
        findings.extend(error)
    findings.raise_any()
    if draft.text(CHAT_TEMPLATE) != target.text(CHAT_TEMPLATE):
        notes = (*notes, f"`{CHAT_TEMPLATE}` differs; only the target's is used")
    return PairFacts(kind="draft-model", max_width=None, fr_vocabulary=None, notes=notes)


def facts(draft: Header) -> HeaderFacts:
    """The draft's own facts: those of any whole model."""
    return check_target(draft)
