"""The strategies this adapter executes, and why it does not execute the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from power.backends.llamacpp.symbols import NEXTN, exported

_NOT_YET = "the llamacpp adapter does not execute this draft kind yet"

NEEDS: Mapping[str, tuple[str, ...] | None] = {
    "off": (),
    "prompt-lookup": (),
    "ngram-context": (),
    "draft-model": (),
    "mtp": NEXTN,
    "dflash": None,
    "dflash2": None,
    "dspark": None,
    "eagle3": None,
}
"""Strategy -> the experimental functions it needs (`symbols.SYMBOLS`), None where it is not run."""


def capabilities(library: Path) -> dict[str, str | None]:
    """Strategy -> None when it runs on `library` (libllama.so), else the reason why not."""
    there = exported(library)
    return {strategy: _reason(needs, there) for strategy, needs in NEEDS.items()}


def _reason(needs: tuple[str, ...] | None, there: frozenset[str]) -> str | None:
    if needs is None:
        return _NOT_YET
    missing = [f"`llama_{name}`" for name in needs if name not in there]
    if missing:
        return f"this build of llama.cpp does not export {' and '.join(missing)}"
    return None
