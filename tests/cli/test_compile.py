"""`power compile`, as a person and a script see it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Bench, Result

Snapshot = Callable[[Result], None]


def test_writes_a_plan_beside_the_manifest(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("compile", "manifest.toml"))
    assert (bench.folder / "plan.lock").read_text().startswith("# Made by `power compile`")


def test_json(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("compile", "manifest.toml", "-o", "a.lock", "--format", "json"))


def test_check_says_yes(ready: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(ready("compile", "manifest.toml", "--check"))


def test_check_names_what_is_stale(ready: Bench, snapshot_of: Snapshot) -> None:
    ready.edit("manifest.toml", "spec_draft_max = 4", "spec_draft_max = 5")
    before = (ready.folder / "plan.lock").read_bytes()
    snapshot_of(ready("compile", "manifest.toml", "--check"))
    assert (ready.folder / "plan.lock").read_bytes() == before


def test_check_finds_an_edit(ready: Bench, snapshot_of: Snapshot) -> None:
    ready.edit("plan.lock", "spec_draft_max = 4", "spec_draft_max = 5")
    snapshot_of(ready("compile", "manifest.toml", "--check"))


def test_check_without_a_plan(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("compile", "manifest.toml", "--check"))


def test_all_problems_of_a_manifest_at_once(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.edit("manifest.toml", "spec_draft_max = 4", "spec_draft_max = 65\nspec_draft_mim = 1")
    bench.edit("manifest.toml", "temperature = 0.0", "temperature = true")
    bench.edit("manifest.toml", 'shape = "natural"', 'shape = "\\u001b[31mround"')
    snapshot_of(bench("compile", "manifest.toml"))
    assert not (bench.folder / "plan.lock").exists()


def test_two_places_that_conflict(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.edit("manifest.toml", "batch = 8", "batch = 5")
    snapshot_of(bench("compile", "manifest.toml"))


def test_problems_as_annotations(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.edit("manifest.toml", "batch = 8", "batch = 5")
    snapshot_of(bench("compile", "manifest.toml", "--format", "github"))


def test_problems_as_json(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.edit("manifest.toml", "batch = 8", "batch = 5")
    snapshot_of(bench("compile", "manifest.toml", "--format", "json"))


def test_not_toml(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.write("manifest.toml", "schema = 1\nname = \n")
    snapshot_of(bench("compile", "manifest.toml"))


def test_no_manifest(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("compile", "manifesto.toml"))


def test_no_artifact(bench: Bench, snapshot_of: Snapshot) -> None:
    (bench.folder / "target.gguf").unlink()
    snapshot_of(bench("compile", "manifest.toml"))


def test_an_artifact_in_another_root(bench: Bench) -> None:
    (bench.folder / "deep").mkdir()
    (bench.folder / "target.gguf").rename(bench.folder / "deep" / "target.gguf")
    beside = bench("compile", "manifest.toml")
    below = bench("compile", "manifest.toml", "--artifacts", "deep")
    named = bench("compile", "manifest.toml", "--check", env={"POWER_ARTIFACTS": "deep"})
    assert (beside.code, below.code, named.code) == (2, 0, 0)


def test_another_digest(bench: Bench, snapshot_of: Snapshot) -> None:
    data = bytearray((bench.folder / "target.gguf").read_bytes())
    data[-1] ^= 1
    (bench.folder / "target.gguf").write_bytes(data)
    snapshot_of(bench("compile", "manifest.toml"))


def test_a_strategy_that_the_artifacts_do_not_allow(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.edit("manifest.toml", '"prompt-lookup"', '"draft-model"')
    snapshot_of(bench("compile", "manifest.toml"))


def test_a_strategy_that_nobody_knows(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.edit("manifest.toml", '"prompt-lookup"', '"magic"')
    snapshot_of(bench("compile", "manifest.toml"))


def test_an_unknown_profile(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("compile", "manifest.toml", "--profile", "balance"))


def test_a_file_that_is_no_plan_is_not_overwritten(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.write("plan.lock", "my notes\n")
    snapshot_of(bench("compile", "manifest.toml"))
    assert (bench.folder / "plan.lock").read_text() == "my notes\n"


def test_an_older_plan_is_rewritten_whole(ready: Bench) -> None:
    ready.edit("manifest.toml", "spec_draft_max = 4", "spec_draft_max = 5")
    assert ready("compile", "manifest.toml").code == 0
    assert ready("compile", "manifest.toml", "--check").code == 0
    assert not [p for p in ready.folder.iterdir() if p.name.endswith(".tmp")]


def test_a_folder_that_cannot_be_written(bench: Bench) -> None:
    result = bench("compile", "manifest.toml", "-o", "absent/plan.lock")
    assert result.code == 2
    assert "error[P4" in result.stderr


def test_the_same_bytes_anywhere(bench: Bench) -> None:
    """Another folder, locale, time zone and hash seed give the same plan."""
    elsewhere = bench.folder / "else where" / "ünï"
    elsewhere.mkdir(parents=True)
    for name in ("manifest.toml", "target.gguf"):
        (elsewhere / name).write_bytes((bench.folder / name).read_bytes())
    env = {"LC_ALL": "tr_TR.UTF-8", "TZ": "Pacific/Chatham", "PYTHONHASHSEED": "7"}
    assert bench("compile", "manifest.toml").code == 0
    assert bench("compile", str(elsewhere / "manifest.toml"), env=env).code == 0
    assert (elsewhere / "plan.lock").read_bytes() == (bench.folder / "plan.lock").read_bytes()


def test_the_mode_of_a_new_plan_follows_no_secret(bench: Bench) -> None:
    assert bench("compile", "manifest.toml").code == 0
    mode = stat.S_IMODE((bench.folder / "plan.lock").stat().st_mode)
    assert mode == 0o644


def test_a_pipe_is_not_a_manifest(bench: Bench) -> None:
    pipe = bench.folder / "pipe.toml"
    os.mkfifo(pipe)
    result = bench("compile", str(Path("pipe.toml")))
    assert result.code == 2
    assert "error[P1" in result.stderr


def test_a_grammar_that_does_not_parse(bench: Bench, snapshot_of: Snapshot) -> None:
    grammar = "grammar = '''\nroot ::= word\nword ::= [a-z\n'''\n"
    bench.edit("manifest.toml", "temperature = 0.0\n", f"temperature = 0.0\n{grammar}")
    snapshot_of(bench("compile", "manifest.toml"))
    assert not (bench.folder / "plan.lock").exists()
