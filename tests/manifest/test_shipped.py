"""The manifests and profiles that ship: sound, coherent, and honest."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from power.manifest.effective import load_effective
from power.manifest.load import load_manifest, load_profile
from power.manifest.shipped import profile_names, prompts_path, shipped

MANIFESTS = sorted(shipped("manifests").glob("*.toml"))
PROFILES = sorted(shipped("profiles").glob("*.toml"))


def test_something_ships() -> None:
    assert {path.stem for path in MANIFESTS} >= {"smollm2-135m", "qwen2.5-coder-1.5b"}
    assert set(profile_names()) >= {"balanced", "peak-fr8192", "short-task", "lookup-cpu", "off"}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_holds_with_its_profile(path: Path) -> None:
    effective = load_effective(path)
    assert effective.name == path.stem
    assert effective.profile is not None


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_a_profile_is_named_as_its_file_and_holds_alone(path: Path, tmp_path: Path) -> None:
    profile = load_profile(path).profile
    assert profile.name == path.stem
    mode = profile.speculation.spec_mode
    digest = "ab" * 32
    draft = (
        f'[draft]\nkind = "{mode}"\npath = "d"\nbytes = 1\nsha256 = "{"cd" * 32}"\n'
        f'target_sha256 = "{digest}"\n'
        if mode in {"dspark", "dflash2"}
        else ""
    )
    manifest = tmp_path / "m.toml"
    manifest.write_text(
        f'schema = 1\nname = "m"\n[target]\npath = "t"\nbytes = 1\nsha256 = "{digest}"\n{draft}'
    )
    assert load_effective(manifest, profile=path.stem).settings.graph.context >= 2


def test_any_model_can_be_tuned_with_the_shipped_prompts() -> None:
    """None needs a chat template."""
    lines = prompts_path("tuning").read_text("utf-8").splitlines()
    assert [set(json.loads(line)) >= {"id", "prompt"} for line in lines] == [True] * 14


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_measured_evidence_has_its_report(path: Path) -> None:
    for entry in load_profile(path).profile.evidence:
        if entry.by == "measured":
            assert entry.report is not None
            report = path.parent / entry.report
            assert json.loads(report.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["off", "lookup-cpu", "balanced", "short-task", "adaptive"])
@pytest.mark.parametrize("manifest", ["smollm2-135m", "qwen2.5-coder-1.5b-lookup", "gemma-3-270m"])
def test_profiles_can_be_exchanged(manifest: str, name: str) -> None:
    """A manifest pins what it must and leaves the tuning to profiles."""
    path = shipped("manifests") / f"{manifest}.toml"
    assert load_effective(path, profile=name).profile is not None


def test_one_file_has_one_digest() -> None:
    pinned: dict[str, set[tuple[int, str]]] = {}
    for path in MANIFESTS:
        manifest = load_manifest(path).manifest
        for artifact in (manifest.target, manifest.draft):
            if artifact is not None:
                pinned.setdefault(artifact.path, set()).add((artifact.bytes, artifact.sha256))
    assert all(len(facts) == 1 for facts in pinned.values())


@pytest.mark.parametrize("path", MANIFESTS + PROFILES, ids=lambda path: path.stem)
def test_shipped_files_diff_well(path: Path) -> None:
    """One space around `=`: an aligned column would change with its longest key."""
    for line in path.read_text(encoding="utf-8").splitlines():
        assert len(line) <= 100
        assert line == line.rstrip()
        if "=" in line and not line.startswith("#"):
            assert re.match(r"\w+ = \S", line)
