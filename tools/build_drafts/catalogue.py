"""The external draft heads by name, and the llama targets that they are for.

Those over `SMALL` are for the hybrid target `qwen35` too: it walks the same cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from tools.build_drafts.dflash import BlockDraft
from tools.build_drafts.eagle3 import Eagle3Draft
from tools.build_drafts.qwen35 import WIDE, NativeTable
from tools.build_drafts.targets import LlamaTarget
from tools.build_drafts.walk import NarrowWalk, Walk


class Recipe(Protocol):
    """One file."""

    @property
    def name(self) -> str:
        """Its name without the suffix."""
        ...

    def write(self, folder: Path) -> Path:
        """Write it below `folder`."""
        ...


SMALL = Walk()
LARGE = Walk(width=96, vocabulary=8320)  # more tokens than the reduced heads of the profiles keep
PUSH = 0.5  # the target leaves the walk often enough that no draft is always right
ROWS = 280  # of a reduced head over `SMALL`
LARGE_ROWS = 8192

TARGETS: tuple[Recipe, ...] = (
    LlamaTarget("walk", SMALL, PUSH),
    LlamaTarget("walk-large", LARGE, PUSH),
)

BLOCK_DRAFTS = (
    BlockDraft("dflash", "dflash", SMALL),
    BlockDraft("dflash-own", "dflash", SMALL, own=True),
    BlockDraft("dflash-d2t", "dflash", SMALL, rows=ROWS),
    BlockDraft("dflash-own-d2t", "dflash", SMALL, own=True, rows=ROWS),
    BlockDraft("dflash-nine", "dflash", SMALL, block=9),
    BlockDraft("dflash-sections", "dflash", SMALL, sections=True),
    BlockDraft("dflash2", "dflash2", SMALL),
    BlockDraft("dflash2-own", "dflash2", SMALL, own=True),
    BlockDraft("dflash2-nine", "dflash2", SMALL, block=9),
    BlockDraft("dspark", "dspark", SMALL),
    BlockDraft("dspark-own", "dspark", SMALL, own=True),
    BlockDraft("dspark-d2t", "dspark", SMALL, rows=ROWS),
    BlockDraft("dspark-own-d2t", "dspark", SMALL, own=True, rows=ROWS),
    BlockDraft("dspark-bonus", "dspark", SMALL, from_anchor=False),
    BlockDraft("dspark-unsure", "dspark", SMALL, confidence=False),
    BlockDraft("dspark-bonus-unsure", "dspark", SMALL, from_anchor=False, confidence=False),
)
EAGLE_DRAFTS = (
    Eagle3Draft("eagle3", SMALL),
    Eagle3Draft("eagle3-own", SMALL, own=True),
    Eagle3Draft("eagle3-d2t", SMALL, rows=ROWS),
    Eagle3Draft("eagle3-own-d2t", SMALL, own=True, rows=ROWS),
    Eagle3Draft("eagle3-narrow", NarrowWalk(width=48, source=SMALL), own=True),
)
LARGE_DRAFTS = (
    BlockDraft("dflash-large", "dflash", LARGE),
    BlockDraft("dspark-large-d2t", "dspark", LARGE, rows=LARGE_ROWS),
    Eagle3Draft("eagle3-large", LARGE),
)

NATIVE_TABLES = (
    NativeTable("mtp-d2t", SMALL, ROWS),
    NativeTable("mtp-d2t-wide", WIDE, LARGE_ROWS),
)
"""For the prediction blocks of `qwen35` and `qwen35-wide`."""

RECIPES: tuple[Recipe, ...] = (
    *TARGETS,
    *BLOCK_DRAFTS,
    *EAGLE_DRAFTS,
    *LARGE_DRAFTS,
    *NATIVE_TABLES,
)


def build(folder: Path, names: Iterable[str] | None = None) -> dict[str, Path]:
    """Write the fixtures called `names`, or all, below `folder`: name -> file.

    The same bytes come out every time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = None if names is None else set(names)
    return {
        recipe.name: recipe.write(folder)
        for recipe in RECIPES
        if wanted is None or recipe.name in wanted
    }
