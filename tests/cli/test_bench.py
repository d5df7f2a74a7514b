"""`power bench` on a tiny model in the real engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Bench, Result

pytestmark = pytest.mark.engine

Snapshot = Callable[[Result], None]
PROMPTS = """\
{"id": "a", "prompt": "one two three one two three one two"}
{"id": "b", "prompt": "the sea the sea the", "max_tokens": 20}
"""
FEW = ("--samples", "2", "--warmup", "0", "--anyway")


@pytest.fixture
def prompted(ready: Bench) -> Bench:
    ready.write("prompts.jsonl", PROMPTS)
    return ready


def run(bench: Bench, *more: str) -> Result:
    return bench("bench", "plan.lock", "--prompts", "prompts.jsonl", *FEW, *more)


def test_a_plan_and_its_control(prompted: Bench) -> None:
    done = run(prompted, "--control", "--format", "json")
    assert done.code == 0, done.stderr
    assert done.json["report"] == "tiny.bench.json"
    control, plan = done.json["arms"]
    assert (control["arm"], plan["arm"]) == ("control", "plan")
    assert (control["samples"], control["tokens"]) == (4, 2 * (48 + 20))
    assert (control["drafted"], control["tokens_per_pass"]) == (0, "1")
    assert plan["drafted"] > 0
    assert float(plan["tokens_per_pass"]) > 1
    report = prompted.document("tiny.bench.json")
    assert len(report["samples"]) == 8
    assert len(list((prompted.folder / "tiny.bench.receipts").iterdir())) == 8


def test_a_plan_compared_with_its_control(prompted: Bench) -> None:
    assert run(prompted, "--control").code == 0
    name = "tiny.bench.json"
    lenient = ("--min-speedup", "0.0001", "--allow-busy-host")
    done = prompted("compare", name, *lenient, "--format", "json", "-o", "c.json")
    assert done.code == 0, done.stdout.decode()
    found = done.json["comparison"]
    assert (found["same_outputs"], found["identity"]) == (2, [])
    assert prompted.document("c.json") == found
    shown = prompted("compare", name, *lenient)
    said = prompted("report", name, "--format", "json")
    assert said.json["report"] == prompted.document(name)
    assert "tiny `prompt-lookup` (plan) against tiny `off` (control)" in shown.stdout.decode()
    strict = prompted("compare", name, "--min-speedup", "1000000", "--allow-busy-host")
    assert strict.code == 1
    assert "error[P830]: the gate `median_speedup` was missed" in strict.stderr


def test_a_package_of_it(prompted: Bench, snapshot_of: Snapshot) -> None:
    (prompted.folder / "e").mkdir()
    assert run(prompted, "--control", "-o", "e/b.json").code == 0
    assert prompted("evidence", "verify", "e", "--key", "key.pem.pub").code == 2
    snapshot_of(prompted("evidence", "pack", "e"))
    snapshot_of(prompted("evidence", "verify", "e", "--key", "key.pem.pub"))
    said = prompted("evidence", "verify", "e", "--key", "key.pem.pub", "--format", "json").json
    assert (said["reports"], said["comparisons"], said["receipts"]) == (["b.json"], [], 8)
    snapshot_of(prompted("evidence", "verify", "e"))
    assert "replay of 4 runs" in (
        prompted("verify", "e", "--key", "key.pem.pub", "--artifacts", ".", "--replay").stderr
    )
    snapshot_of(prompted("verify", "e", "--key", "key.pem.pub"))
    snapshot_of(prompted("verify", "e", "--key", "key.pem.pub", "--plan", "plan.lock"))
    path = prompted.folder / "e" / "b.json"
    path.write_text(path.read_text().replace('"replays": 0', '"replays": 1', 1))
    changed = prompted("evidence", "verify", "e", "--key", "key.pem.pub")
    assert changed.code == 3
    assert "error[P850]: `b.json` is not the file that was packed" in changed.stderr


def test_a_report_that_is_none(prompted: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(prompted("compare", "manifest.toml"))


def test_a_gate_that_is_no_number(prompted: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(prompted("compare", "x.json", "--min-speedup", "1,5"))


def test_two_plans(prompted: Bench) -> None:
    prompted.edit("manifest.toml", 'name = "tiny"', 'name = "off"')
    prompted.edit("manifest.toml", '"prompt-lookup"', '"off"')
    assert prompted("compile", "manifest.toml", "-o", "off.lock").code == 0
    done = prompted("bench", "off.lock", "plan.lock", "--prompts", "prompts.jsonl", *FEW)
    assert done.code == 0, done.stderr
    report = prompted.document("off.bench.json")
    assert [arm["name"] for arm in report["arms"]] == ["off", "tiny"]
    assert [arm["strategy"] for arm in report["arms"]] == ["off", "prompt-lookup"]


def test_a_receipt_of_a_sample_is_one_like_any_other(prompted: Bench) -> None:
    assert run(prompted, "--samples", "1").code == 0
    (first, _) = sorted((prompted.folder / "tiny.bench.receipts").iterdir())
    name = str(first.relative_to(prompted.folder))
    verified = prompted("verify", name, "--key", "key.pem.pub", "--plan", "plan.lock")
    assert verified.code == 0


def test_an_early_end(prompted: Bench, snapshot_of: Snapshot) -> None:
    prompted.write("prompts.jsonl", '{"id": "a", "prompt": "one two three", "max_tokens": 1}\n')
    snapshot_of(run(prompted))
    assert not (prompted.folder / "tiny.bench.json").exists()


def test_another_bench_of_the_same_name(prompted: Bench, snapshot_of: Snapshot) -> None:
    prompted.write("early.jsonl", '{"id": "a", "prompt": "one two three", "max_tokens": 1}\n')
    prompted("bench", "plan.lock", "--prompts", "early.jsonl", *FEW)
    snapshot_of(run(prompted))


def test_a_name_that_fits_no_files(prompted: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(run(prompted, "-o", "report.txt"))


def test_a_report_that_is_there(prompted: Bench, snapshot_of: Snapshot) -> None:
    prompted.write("tiny.bench.json", "mine")
    snapshot_of(run(prompted))


def test_bad_prompts(prompted: Bench, snapshot_of: Snapshot) -> None:
    prompted.write("prompts.jsonl", '{"prompt": 1}\n{"prompt": "a", "max_tokens": 1000}\n')
    snapshot_of(run(prompted))


def test_no_prompts(prompted: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(prompted("bench", "plan.lock", *FEW))


def test_files_of_a_bench_lie_beside_its_report(prompted: Bench) -> None:
    (prompted.folder / "out").mkdir()
    assert run(prompted, "--samples", "1", "-o", str(Path("out") / "b.json")).code == 0
    assert sorted(p.name for p in (prompted.folder / "out").iterdir()) == [
        "b.journal.jsonl",
        "b.json",
        "b.plan.lock",
        "b.prompts.jsonl",
        "b.receipts",
    ]
