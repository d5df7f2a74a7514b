"""The manifest that `power init` writes loads back and compiles to what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.diagnostics import PowerError
from power.manifest.effective import load_effective
from power.manifest.load import parse_manifest
from power.manifest.model import DraftKind
from power.manifest.starter import MeasuredArtifact, MeasuredFile, name_from, starter


def measured(*paths: str, elsewhere: bool = False) -> MeasuredArtifact:
    files = tuple(MeasuredFile(path, 96 + i, f"{i:064x}") for i, path in enumerate(paths))
    return MeasuredArtifact(files, elsewhere=elsewhere)


def test_a_target_alone(tmp_path: Path) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(starter(measured("models/Tiny.Q4_0.gguf")), encoding="utf-8")
    effective = load_effective(path)
    assert effective.name == "tiny.q4_0"
    assert (effective.target.path, effective.target.bytes) == ("models/Tiny.Q4_0.gguf", 96)
    assert effective.requested == "prompt-lookup"


def test_a_native_head_is_used(tmp_path: Path) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(starter(measured("t.gguf"), native_head=True), encoding="utf-8")
    assert load_effective(path).requested == "auto"


@pytest.mark.parametrize("kind", ["draft-model", "dflash", "dflash2", "dspark", "eagle3"])
def test_a_draft_is_bound_and_planned_for(tmp_path: Path, kind: DraftKind) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(starter(measured("t.gguf"), measured("d.gguf"), kind=kind), encoding="utf-8")
    effective = load_effective(path)
    assert effective.draft is not None
    assert effective.draft.target_sha256 == effective.target.sha256
    assert effective.implied == kind


def test_every_shard_is_listed() -> None:
    names = ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"]
    text = starter(measured(*names), measured(*(f"d{name}" for name in names)), name="a")
    manifest = parse_manifest(text.encode(), "m").manifest
    for artifact in (manifest.target, manifest.draft):
        assert artifact is not None
        assert artifact.shards is not None
        assert [s.bytes for s in artifact.shards] == [96, 97]


@pytest.mark.parametrize(("context", "written"), [(100, 100), (4096, 4096), (131072, 4096)])
def test_the_context_is_one_the_target_was_made_for(context: int, written: int) -> None:
    text = starter(measured("t.gguf"), context=context)
    manifest = parse_manifest(text.encode(), "m").manifest
    assert manifest.graph.context == written
    assert manifest.sampling.max_tokens == min(256, written - 1)


def test_artifacts_elsewhere_are_explained() -> None:
    assert "`--artifacts`" in starter(measured("t.gguf", elsewhere=True))
    assert "`--artifacts`" not in starter(measured("t.gguf"))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("models/Qwen 3.Q4_0.gguf", "qwen-3.q4_0"),
        ("A-00001-of-00007.gguf", "a"),
        ("Ünï.gguf", "n"),
        ("模型.gguf", "model"),
        (".gguf", "model"),
        ("x" * 100 + ".gguf", "x" * 63),
    ],
)
def test_names_from_paths(path: str, name: str) -> None:
    assert name_from(path) == name


@given(st.text(min_size=1, max_size=30))
def test_any_file_name_is_written_right_or_refused(stem: str) -> None:
    """What a file is called cannot add a line to the manifest."""
    path = f"{stem}.gguf"
    try:
        text = starter(measured(path))
    except PowerError as error:
        codes = {found.code for found in error.diagnostics}
        expected = {"P117"}
    else:
        codes = set()
        expected = set()
        assert parse_manifest(text.encode(), "m").manifest.target.path == path
    assert codes == expected


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("https://example.org/m", 'source = "https://example.org/m" # as the file says\n'),
        (
            "https://huggingface.co/a/b",
            '# source = "https://huggingface.co/a/b" # as the file says',
        ),
    ],
)
def test_what_the_file_says_of_its_origin_is_taken_over(source: str, line: str) -> None:
    file = MeasuredFile("t.gguf", 9, "ab" * 32)
    text = starter(MeasuredArtifact((file,), license="mit", source=source))
    assert line in text
    assert 'license = "mit" # as the file says\n' in text
