"""`power tune` on a tiny model in the real engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from power.evidence.trace import read_trace
from power.manifest.load import load_profile
from tests.cli.conftest import Bench, Result, to_tune

pytestmark = pytest.mark.engine

Snapshot = Callable[[Result], None]
PROMPTS = """\
{"id": "a", "prompt": "one two three one two three one two", "max_tokens": 30}
{"id": "b", "prompt": "the sea the sea the", "max_tokens": 20}
"""
FEW = ("--prompts", "prompts.jsonl", "--widest", "3", "--samples", "1", "--anyway")


@pytest.fixture
def open_bench(bench: Bench) -> Bench:
    """A manifest that leaves speculation and batch to its profile."""
    to_tune(bench, "manifest.toml")
    bench.write("prompts.jsonl", PROMPTS)
    return bench


def test_a_profile_with_its_evidence(open_bench: Bench) -> None:
    done = open_bench("tune", "manifest.toml", *FEW, "--format", "json")
    assert done.code == 0, done.stderr
    assert set(done.json["cost"]["rows"]) == {"1", "2", "3", "4"}
    profile = load_profile(open_bench.folder / "tiny-tuned.toml").profile
    (evidence,) = profile.evidence
    report = (open_bench.folder / "tiny-tuned.tune.json").read_bytes()
    assert (evidence.by, evidence.report) == ("measured", "tiny-tuned.tune.json")
    assert evidence.report_sha256 == hashlib.sha256(report).hexdigest()
    said = open_bench.document("tiny-tuned.tune.json")
    assert said["schema"] == "power.tune-report.v1"
    assert {len(one["ns"]) for one in said["passes"]} == {15}
    open_bench.document("tiny-tuned.trace.json")
    trace = read_trace(open_bench.folder / "tiny-tuned.trace.json")
    assert [len(request.ids) for request in trace.requests] == [30, 20]
    assert trace.costs is not None
    assert trace.costs.rows == done.json["cost"]["rows"]
    assert open_bench("fmt", "--check", "tiny-tuned.toml").code == 0
    assert open_bench("compile", "manifest.toml", "--profile", "tiny-tuned.toml").code == 0
    simulated = open_bench("simulate", "tiny-tuned.trace.json", "--format", "json").json
    assert simulated.get("chosen") == done.json.get("chosen")


def test_a_draft_that_does_not_pay_is_not_traded_for_a_lookup(open_bench: Bench) -> None:
    """A plan with a draft can use no lookup, whatever it is predicted to gain."""
    text = (open_bench.folder / "manifest.toml").read_text()
    pins = "".join(
        line + "\n" for line in text.splitlines() if line.startswith(("path", "bytes", "sha256"))
    )
    bound = next(line for line in pins.splitlines() if line.startswith("sha256"))
    draft = f'[draft]\nkind = "draft-model"\n{pins}target_{bound}\n\n'
    open_bench.write("manifest.toml", text.replace("[graph]", draft + "[graph]"))
    done = open_bench("tune", "manifest.toml", *FEW, "--format", "json")
    assert done.code == 0, done.stderr
    # What pays depends on this host; what may be chosen does not.
    assert done.json.get("chosen", {"strategy": "draft-model"})["strategy"] == "draft-model"
    assert done.json.get("without_draft", {"strategy": ""})["strategy"] != "draft-model"
    assert open_bench("compile", "manifest.toml", "--profile", "tiny-tuned.toml").code == 0


def test_nothing_is_overwritten(open_bench: Bench, snapshot_of: Snapshot) -> None:
    open_bench.write("tiny-tuned.tune.json", "mine")
    snapshot_of(open_bench("tune", "manifest.toml", *FEW))


def test_a_manifest_that_decides_by_itself(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.write("prompts.jsonl", PROMPTS)
    snapshot_of(bench("tune", "manifest.toml", *FEW))


def test_row_counts_that_may_be_used(open_bench: Bench) -> None:
    done = open_bench("tune", "manifest.toml", *FEW, "--rows", "1,3", "--format", "json")
    assert done.code == 0, done.stderr
    assert set(done.json["cost"]["rows"]) == {"1", "3"}
    assert open_bench("tune", "manifest.toml", "--rows", "x").code == 2


def test_texts_too_short_to_time_behind(open_bench: Bench) -> None:
    open_bench.write("prompts.jsonl", '{"prompt": "a", "max_tokens": 2}\n')
    done = open_bench("tune", "manifest.toml", *FEW)
    assert done.code == 2
    assert "P809" in done.stderr
