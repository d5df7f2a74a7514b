"""What Power says of a pair of files, and that it says it in the one way it may."""

from __future__ import annotations

from pathlib import Path

from power.artifact.contracts.pair import check_pair, draft_facts
from power.artifact.opened import OpenArtifact
from power.artifact.target import check_target
from power.diagnostics import PowerError, as_text


def refusal(kind: str, target: Path, draft: Path | None) -> PowerError | None:
    """Why the pair is refused, or None where it would be run. Anything but PowerError is a bug."""
    try:
        with OpenArtifact.open(target.name, [target.parent]) as whole:
            check_target(whole.header)
            if draft is not None:
                with OpenArtifact.open(draft.name, [draft.parent]) as head:
                    draft_facts(kind, head.header)
                    check_pair(kind, head.header, whole.header)
            elif kind == "mtp":
                check_pair(kind, whole.header, whole.header)
    except PowerError as error:
        return error
    return None


def misspoken(error: PowerError) -> list[str]:
    """What is wrong with a refusal itself: its code, its advice, text that acts on a terminal."""
    wrong = [d.code for d in error.diagnostics if d.code[:2] not in {"P2", "P3"}]
    wrong += [f"{d.code} without a hint" for d in error.diagnostics if not d.hint]
    shown = as_text(error.diagnostics)
    wrong += [line for line in shown.split("\n") if not line.isprintable()]
    return wrong + (["an endless message"] if len(shown) > 1 << 20 else [])
