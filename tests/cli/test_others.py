"""The verbs that need no engine: show, diff, inspect, key, explain, init, doctor."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from power.cli.app import VERBS
from tests.cli.conftest import CORPUS, Bench, Result

Snapshot = Callable[[Result], None]


def test_no_verb(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench())


def test_an_unknown_verb(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("complie"))


def test_an_unknown_option_as_json(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("show", "plan.lock", "--loud", "--format", "json"))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_speaks_json(bench: Bench, verb: str) -> None:
    """Even what fails is one object with a schema and the exit code."""
    arguments = {
        "key": ("key", "show", "absent"),
        "diff": ("diff", "a", "b"),
        "explain": ("explain", "P0"),
        "init": ("init", "absent.gguf"),
        "review": ("review", "--base", "absent"),
        "doctor": ("doctor",),
    }.get(verb, (verb, "absent"))
    result = bench(*arguments, "--format", "json")
    assert result.json["exit_code"] == result.code
    assert result.json["schema"].startswith("power.")
    assert result.stderr == ""
    assert (verb == "doctor") == (result.code == 0)


def test_show(ready: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(ready("show", "plan.lock"))


def test_show_json_holds_the_plan(ready: Bench) -> None:
    shown = ready("show", "plan.lock", "--format", "json").json
    assert shown["plan"]["speculation"]["spec_draft_max"] == 4


def test_show_a_manifest(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("show", "manifest.toml"))


def test_diff_of_plans(ready: Bench, snapshot_of: Snapshot) -> None:
    (ready.folder / "plan.lock").rename(ready.folder / "old.lock")
    ready.edit("manifest.toml", "spec_draft_max = 4", "spec_draft_max = 5")
    ready.edit("manifest.toml", "temperature = 0.0", "temperature = 0.5")
    assert ready("compile", "manifest.toml").code == 0
    snapshot_of(ready("diff", "old.lock", "plan.lock"))


def test_diff_exit_code(ready: Bench) -> None:
    (ready.folder / "same.lock").write_bytes((ready.folder / "plan.lock").read_bytes())
    assert ready("diff", "plan.lock", "same.lock", "--exit-code").code == 0
    ready.write(
        "other.toml",
        (ready.folder / "manifest.toml").read_text().replace("max_tokens = 48", "max_tokens = 47"),
    )
    assert ready("diff", "manifest.toml", "other.toml").code == 0
    assert ready("diff", "manifest.toml", "other.toml", "--exit-code").code == 1


def test_diff_with_a_revision(ready: Bench, snapshot_of: Snapshot) -> None:
    for command in (
        ("init", "-q"),
        ("add", "manifest.toml"),
        ("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "one"),
    ):
        subprocess.run(["git", *command], cwd=ready.folder, check=True)
    ready.edit("manifest.toml", "max_tokens = 48", "max_tokens = 47")
    snapshot_of(ready("diff", "HEAD:manifest.toml", "manifest.toml", "--format", "markdown"))


def test_diff_with_a_revision_that_is_not_there(bench: Bench) -> None:
    result = bench("diff", "HEAD:manifest.toml", "manifest.toml")
    assert result.code == 2
    assert "error[P4" in result.stderr


def test_inspect(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("inspect", "target.gguf"))


def test_inspect_what_is_no_gguf(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("inspect", str(Path("manifest.toml"))))


def test_inspect_a_pair(bench: Bench) -> None:
    draft = str(CORPUS / "good-v3-draft.gguf")
    good = bench("inspect", draft, "--kind", "draft-model", "--target", "target.gguf")
    swapped = str(CORPUS / "draft-vocab-swapped-low.gguf")
    bad = bench("inspect", swapped, "--kind", "draft-model", "--target", "target.gguf")
    assert (good.code, bad.code) == (0, 2)


def test_a_key_is_not_overwritten(ready: Bench) -> None:
    before = (ready.folder / "key.pem").read_bytes()
    assert ready("key", "new").code == 2
    assert (ready.folder / "key.pem").read_bytes() == before
    assert (ready.folder / "key.pem").stat().st_mode & 0o777 == 0o600


def test_key_show_prints_the_public_half_alone(ready: Bench) -> None:
    shown = ready("key", "show")
    assert shown.code == 0
    assert shown.stdout == (ready.folder / "key.pem.pub").read_bytes()
    private = ready("key", "show", "key.pem")
    assert private.stdout == shown.stdout
    (ready.folder / "key.pem.pub").unlink()
    alone = ready("key", "show", "key.pem")
    assert alone.code == 2
    assert b"PRIVATE" not in alone.stdout


def test_explain(bench: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(bench("explain", "p707"))


def test_init_makes_a_manifest_that_compiles(bench: Bench) -> None:
    (bench.folder / "manifest.toml").unlink()
    made = bench("init")
    assert made.code == 0, made.stderr
    assert bench("compile", "manifest.toml").code == 0
    again = bench("init")
    assert again.code == 2


def test_init_among_several_files(bench: Bench, snapshot_of: Snapshot) -> None:
    for name in ("b.gguf", "c.gguf"):
        (bench.folder / name).write_bytes(b"")
    snapshot_of(bench("init", "-o", "new.toml"))


def test_doctor_lists_what_the_engine_executes(bench: Bench) -> None:
    result = bench("doctor", "--format", "json").json
    executes = {s["strategy"] for s in result["strategies"] if s["executes"]}
    assert {"off", "prompt-lookup", "ngram-context", "draft-model"} <= executes
    assert all(len(digest) == 64 for digest in result["engine"]["libraries"].values())
    assert all(s["executes"] or s["reason"] for s in result["strategies"])


def test_completion_offers_verbs(bench: Bench) -> None:
    env = {"_POWER_COMPLETE": "bash_complete", "COMP_WORDS": "power co", "COMP_CWORD": "1"}
    assert b"compile" in bench(env=env).stdout


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_closed_standard_stream_is_no_crash(ready: Bench, closed: str) -> None:
    """The next file that is opened must not become standard output."""
    before = (ready.folder / "plan.lock").read_bytes()
    script = f'exec "{sys.executable}" -m power run plan.lock --prompt one {closed}'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=ready.folder,
        env=ready.environment(),
        capture_output=True,
        check=False,
    )
    lost = "1>&-" in closed  # the text, so that nothing is signed
    assert done.returncode == (2 if lost else 0), done.stderr
    assert b"Traceback" not in done.stderr
    assert len(ready.receipts) == (0 if lost else 1)
    assert (ready.folder / "plan.lock").read_bytes() == before


def test_diff_fails_on_the_classes_that_policy_names(ready: Bench, snapshot_of: Snapshot) -> None:
    ready.write(
        "other.toml",
        (ready.folder / "manifest.toml").read_text().replace("max_tokens = 48", "max_tokens = 47"),
    )
    options = ("--fail-on", "output", "--fail-on", "identity")
    snapshot_of(ready("diff", "manifest.toml", "other.toml", *options))
    as_json = ready("diff", "manifest.toml", "other.toml", *options, "--format", "json")
    assert (as_json.code, [d["code"] for d in as_json.json["diagnostics"]]) == (1, ["P456"])
    assert ready("diff", "manifest.toml", "other.toml", "--fail-on", "shape").code == 0


def test_diff_of_a_plan_with_conflict_markers(ready: Bench, snapshot_of: Snapshot) -> None:
    text = (ready.folder / "plan.lock").read_text()
    ready.write("broken.lock", text.replace("[graph]", "<<<<<<< ours\n[graph]\n>>>>>>> theirs\n"))
    snapshot_of(ready("diff", "plan.lock", "broken.lock"))
