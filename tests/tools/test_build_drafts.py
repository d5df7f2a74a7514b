"""The draft fixtures are the same bytes every time, and each is what its contract wants."""

from pathlib import Path

import pytest

from power.artifact.contracts.common import detect_kind
from power.artifact.contracts.pair import check_pair
from power.artifact.header import Header, read_header
from power.artifact.target import check_target
from tools.build_drafts import catalogue, qwen35
from tools.build_drafts.__main__ import main
from tools.build_drafts.catalogue import (
    BLOCK_DRAFTS,
    EAGLE_DRAFTS,
    LARGE,
    LARGE_DRAFTS,
    NATIVE_TABLES,
    SMALL,
)
from tools.build_drafts.dflash import BlockDraft
from tools.build_drafts.eagle3 import Eagle3Draft
from tools.build_drafts.qwen35 import NativeTable
from tools.build_drafts.walk import Walk

DRAFTS = (*BLOCK_DRAFTS, *EAGLE_DRAFTS, *LARGE_DRAFTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every file of the catalogue, and the hybrid targets."""
    folder = tmp_path_factory.mktemp("drafts")
    catalogue.build(folder)
    qwen35.build(folder)
    return folder


def header(path: Path) -> Header:
    with path.open("rb") as file:
        return read_header(file.fileno(), path.stat().st_size, path.name)


def test_built_again_they_are_the_same(folder: Path, tmp_path: Path) -> None:
    again = catalogue.build(tmp_path)
    assert len(again) == len(catalogue.RECIPES)
    for name, path in again.items():
        assert path.read_bytes() == (folder / f"{name}.gguf").read_bytes()


@pytest.mark.parametrize("draft", DRAFTS, ids=lambda draft: draft.name)
def test_each_passes_its_contract(draft: BlockDraft | Eagle3Draft, folder: Path) -> None:
    """With every target that walks its cycle."""
    kind = draft.kind if isinstance(draft, BlockDraft) else "eagle3"
    file = header(folder / f"{draft.name}.gguf")
    assert detect_kind(file) == kind
    for target in ("walk-large",) if draft.walk is LARGE else ("walk", "qwen35"):
        facts = check_pair(kind, file, header(folder / f"{target}.gguf"))
        assert facts.fr_vocabulary == draft.rows
        if isinstance(draft, BlockDraft):
            anchored = draft.kind == "dspark" and draft.from_anchor
            assert facts.max_width == draft.block - (not anchored)


@pytest.mark.parametrize("table", NATIVE_TABLES, ids=lambda table: table.name)
def test_each_table_is_for_its_block(table: NativeTable, folder: Path) -> None:
    target = "qwen35" if table.walk == SMALL else "qwen35-wide"
    file, block = (header(folder / f"{name}.gguf") for name in (table.name, target))
    assert detect_kind(file) == "mtp"
    assert check_pair("mtp", file, block).fr_vocabulary == table.rows


@pytest.mark.parametrize("target", catalogue.TARGETS, ids=lambda target: target.name)
def test_each_target_is_one(target: catalogue.Recipe, folder: Path) -> None:
    facts = check_target(header(folder / f"{target.name}.gguf"))
    assert facts.architecture == "llama"


def test_the_large_family_is_larger_than_the_profiles_heads() -> None:
    assert LARGE.vocabulary > catalogue.LARGE_ROWS == 8192


@pytest.mark.parametrize("walk", [SMALL, LARGE], ids=["small", "large"])
def test_turning_a_phase_is_stepping_along_the_cycle(walk: Walk) -> None:
    """What lets a head be constructed."""
    words = walk.embedding[3:-1]
    read = walk.head() @ walk.turn(2) @ words.T
    index = (read.argmax(axis=0) - 3 - 3 * 7) % walk.length
    assert (index == range(walk.length)).all()


def test_the_command_builds_what_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(tmp_path), "dflash", "walk"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dflash.gguf", "walk.gguf"]
    assert capsys.readouterr().out.count("  ") == 2
