"""`power quality` over several workers: what it finds is what one finds."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.cli.conftest import Bench, Result

pytestmark = pytest.mark.engine

TASKS = "".join(
    f'{{"id": "{n}", "question": "the sea {n} the sea", "answer": "sea", "scorer": "text"}}\n'
    for n in range(5)
)


@pytest.fixture
def tasked(brief: Bench) -> Bench:
    brief.write("t.jsonl", TASKS)
    return brief


def run(bench: Bench, name: str, *more: str) -> Result:
    asked = ("--control", "--tasks", "t.jsonl", "--max-tokens", "12", "--repetitions", "2")
    return bench("quality", "plan.lock", *asked, "-o", name, "--format", "json", *more)


def found(bench: Bench, name: str) -> Any:
    """What a report says of outputs: all but times, receipts and the order of runs."""
    report = json.loads((bench.folder / name).read_text())
    runs = [{k: v for k, v in run.items() if "receipt" not in k} for run in report["runs"]]
    runs.sort(key=lambda run: (run["round"], run["mode"], run["task"]))
    return report["scores"], report["pairs"], report["by_task"], runs


def test_several_processes_find_what_one_finds(tasked: Bench) -> None:
    assert run(tasked, "one.json").code == 0
    several = run(tasked, "several.json", "--workers", "2")
    assert several.code == 0, several.stderr
    assert found(tasked, "several.json") == found(tasked, "one.json")
    assert len(list((tasked.folder / "several.receipts").iterdir())) == 20


@pytest.mark.slow
def test_a_cluster_finds_what_one_finds(tasked: Bench) -> None:
    assert run(tasked, "one.json").code == 0
    over = run(tasked, "over.json", "--workers", "2", "--ray", "local")
    assert over.code == 0, over.stderr
    assert found(tasked, "over.json") == found(tasked, "one.json")


def test_too_many_workers_are_warned_of(tasked: Bench) -> None:
    cpu = min(os.sched_getaffinity(0))
    tasked.edit("manifest.toml", "threads = 1", f"threads = 1\ncpu_affinity = [{cpu}]")
    assert tasked("compile", "manifest.toml").code == 0
    done = run(tasked, "many.json", "--workers", "2")
    assert done.code == 0
    (warning,) = done.json["diagnostics"]
    assert (warning["code"], warning["severity"]) == ("P876", "warning")


def test_a_cluster_that_is_not_there(tasked: Bench) -> None:
    done = run(tasked, "none.json", "--ray", "nonsense")
    assert done.code == 2
    assert [d["code"] for d in done.json["diagnostics"]] == ["P871"]
    assert not (tasked.folder / "none.json").exists()


def test_a_changed_artifact_ends_it(tasked: Bench) -> None:
    path = tasked.folder / "target.gguf"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    done = run(tasked, "x.json", "--workers", "2")
    assert done.code == 3
    errors = [d["code"] for d in done.json["diagnostics"] if d["severity"] == "error"]
    assert errors == ["P231"]


def test_what_one_worker_began_several_finish(tasked: Bench) -> None:
    """The journal says what is done, whoever did it."""
    assert run(tasked, "one.json").code == 0
    journal = tasked.folder / "one.journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["line"] == "sample"][:7]
    begun = [line for line in lines if json.loads(line)["line"] != "sample"]
    expected = found(tasked, "one.json")
    journal.write_text("".join([*begun, *kept]))
    (tasked.folder / "one.json").unlink()
    assert run(tasked, "one.json", "--workers", "2").code == 0
    assert found(tasked, "one.json") == expected
    assert journal.read_text().startswith("".join([*begun, *kept]))
