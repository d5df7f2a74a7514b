"""The strategies this adapter executes, and why it does not execute the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from power.backends.llamacpp.symbols import (
    LAYER_INPUTS,
    NEXTN,
    SELECTOR,
    TARGET_LAYERS,
    exported,
)

NEEDS: Mapping[str, tuple[str, ...]] = {
    "off": (),
    "prompt-lookup": (),
    "ngram-context": (),
    "draft-model": (),
    "mtp": NEXTN,
    "dflash": LAYER_INPUTS + TARGET_LAYERS,
    "dflash2": LAYER_INPUTS + TARGET_LAYERS + NEXTN + SELECTOR,
    "dspark": LAYER_INPUTS + TARGET_LAYERS + NEXTN,
    "eagle3": LAYER_INPUTS + TARGET_LAYERS + NEXTN,
}
"""Strategy -> the experimental functions it needs (`symbols.SYMBOLS`)."""


def capabilities(library: Path) -> dict[str, str | None]:
    """Strategy -> None when it runs on `library` (libllama.so), else the reason why not."""
    return reasons(exported(library))


def reasons(there: frozenset[str]) -> dict[str, str | None]:
    """Strategy -> None when the functions `there` are all that it needs, else what is missing."""
    return {strategy: _reason(needs, there) for strategy, needs in NEEDS.items()}


def _reason(needs: tuple[str, ...], there: frozenset[str]) -> str | None:
    missing = [f"`llama_{name}`" for name in needs if name not in there]
    if missing:
        return f"this build of llama.cpp does not export {' and '.join(missing)}"
    return None
