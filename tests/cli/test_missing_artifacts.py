"""Who lacks a manifest's artifact is told which file that is, and where it is to be had."""

import re
from typing import Any

import pytest

from power.manifest.load import load_manifest
from power.manifest.shipped import shipped
from tests.cli.conftest import Bench


@pytest.mark.parametrize("name", ["qwen3.8-27b-q6_k", "qwen3.8-27b-q6_k-dspark"])
def test_a_person_without_the_large_files_gets_the_right_message(bench: Bench, name: str) -> None:
    path = shipped("manifests") / f"{name}.toml"
    bench.write(path.name, path.read_text("utf-8"))
    run = bench("compile", path.name)
    assert run.code == 2
    assert not (bench.folder / f"{name}.lock").exists()
    manifest = load_manifest(path).manifest
    needed = [found for found in (manifest.target, manifest.draft) if found is not None]
    assert run.stderr.count("error[P221]") == len(needed)
    for artifact in needed:
        said = re.search(
            rf"`{re.escape(artifact.path)}` was not found\n  expected: (.*)\n.*\nhint: (.*)\n",
            run.stderr,
        )
        assert said is not None
        assert f"{artifact.bytes:,} bytes, sha256 {artifact.sha256}" in said[1]
        assert "--artifacts DIR" in said[2]
        if artifact.source is not None:
            origin = f"{artifact.source} at revision {artifact.revision}"
            package = artifact.source.startswith("pkg:")
            assert (f"(source: {origin})" in said[1]) == package
            assert (f"from {origin}" in said[2]) != package


def test_the_machine_readable_form_says_the_same(bench: Bench) -> None:
    bench.write("m.toml", (shipped("manifests") / "qwen3.8-27b-q6_k.toml").read_text("utf-8"))
    found: list[dict[str, Any]] = bench("compile", "m.toml", "--format", "json").json["diagnostics"]
    assert ["22,884,408,288 bytes" in d["expected"] for d in found] == [True]
