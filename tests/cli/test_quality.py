"""`power quality` on a tiny model in the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Bench, Result

pytestmark = pytest.mark.engine

Snapshot = Callable[[Result], None]
TASKS = """\
{"id": "sum", "question": "2 + 3?", "answer": "5", "scorer": "number"}
{"id": "pick", "question": "Which?", "choices": ["one", "two"], "answer": "B", "scorer": "choice"}
{"id": "word", "question": "the sea the sea", "answer": "sea", "scorer": "text"}
"""


@pytest.fixture
def tasked(brief: Bench) -> Bench:
    brief.write("t.jsonl", TASKS)
    return brief


def run(bench: Bench, *more: str) -> Result:
    return bench("quality", "plan.lock", "--tasks", "t.jsonl", "--max-tokens", "12", *more)


def test_a_plan_and_its_control(tasked: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(run(tasked, "--control", "--repetitions", "2"))
    report = json.loads((tasked.folder / "tiny.quality.json").read_text())
    assert (len(report["runs"]), report["repetitions"]) == (12, 2)
    assert len(list((tasked.folder / "tiny.quality.receipts").iterdir())) == 12


def test_json_says_what_the_report_says(tasked: Bench) -> None:
    done = run(tasked, "--control", "--format", "json")
    assert done.code == 0, done.stderr
    report = json.loads((tasked.folder / "tiny.quality.json").read_text())
    assert done.json["eligible"] == ["plan"]
    assert done.json["report"] == "tiny.quality.json"
    for key in ("scores", "pairs"):
        assert done.json[key] == report[key]


def test_a_missed_gate_is_exit_1(tasked: Bench, snapshot_of: Snapshot) -> None:
    """The base speculates, so nothing is held against target-only decoding."""
    tasked.edit("manifest.toml", 'name = "tiny"', 'name = "off"')
    tasked.edit("manifest.toml", '"prompt-lookup"', '"off"')
    assert tasked("compile", "manifest.toml", "-o", "off.lock").code == 0
    locks = ("plan.lock", "off.lock")
    snapshot_of(tasked("quality", *locks, "--tasks", "t.jsonl", "--max-tokens", "8"))
    done = tasked("quality", *reversed(locks), "--tasks", "t.jsonl", "--max-tokens", "8")
    assert done.code == 0, done.stderr


def test_a_package_of_it(tasked: Bench) -> None:
    (tasked.folder / "e").mkdir()
    assert run(tasked, "--control", "-o", "e/q.json").code == 0
    packed = tasked("evidence", "pack", "e")
    assert (packed.code, "1 quality matrix, 6 receipts" in packed.stderr) == (0, True)
    assert tasked("evidence", "verify", "e", "--key", "key.pem.pub").code == 0
    again = tasked("verify", "e", "--key", "key.pem.pub", "--artifacts", ".", "--replay")
    assert (again.code, "replay of 6 runs" in again.stderr) == (0, True)
    path = tasked.folder / "e" / "q.json"
    path.write_text(path.read_text().replace('"eligible": true', '"eligible": false', 1))
    changed = tasked("evidence", "verify", "e", "--key", "key.pem.pub")
    assert (changed.code, "error[P850]" in changed.stderr) == (3, True)


def test_pages_of_it(tasked: Bench) -> None:
    assert run(tasked, "--control").code == 0
    shown = tasked("report", "tiny.quality.json")
    assert shown.stdout.decode().startswith("# Quality of `tiny`\n")
    page = tasked("report", "tiny.quality.json", "--format", "html")
    assert b"eligible as production default" in page.stdout
    assert tasked("compare", "tiny.quality.json").code == 2


def test_what_was_interrupted_goes_on(tasked: Bench) -> None:
    assert run(tasked, "--control").code == 0
    journal = tasked.folder / "tiny.quality.journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:3]))
    (tasked.folder / "tiny.quality.json").unlink()
    assert run(tasked, "--control").code == 0
    assert journal.read_text().splitlines(keepends=True)[:3] == lines[:3]


def test_a_shipped_set(tasked: Bench) -> None:
    done = tasked("quality", "plan.lock", "--control", "--tasks", "smal")
    assert (done.code, "did you mean `small`?" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "line",
    [
        '{"question": "2 + 3?", "anwser": "5", "answer": "5", "scorer": "number"}',
        '{"prompt": "def f():", "entry_point": "f"}',
        '{"question": "2 + 3?", "answer": "5"}',
    ],
    ids=["unknown-key", "code", "no-form"],
)
def test_tasks_that_are_none(tasked: Bench, snapshot_of: Snapshot, line: str) -> None:
    tasked.write("t.jsonl", line + "\n")
    snapshot_of(run(tasked, "--control"))


def test_a_plan_alone(tasked: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(run(tasked))


def test_more_tokens_than_the_plan_allows(tasked: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(
        tasked("quality", "plan.lock", "--control", "--tasks", "small", "--max-tokens", "99")
    )


def test_tasks_can_be_asked_in_a_chat(ready: Bench) -> None:
    """This model never ends its text, so whatever it is asked, it is fit for nothing."""
    ready.write("t.jsonl", TASKS)
    assert run(ready, "--control", "--chat").code == 1
    report = json.loads((ready.folder / "tiny.quality.json").read_text())
    assert report["tasks"]["chat"]


def test_texts_that_no_end_was_seen_of(tasked: Bench) -> None:
    """Equal up to a limit that cuts every output says nothing of the answers behind it."""
    tasked.write("t.jsonl", '{"question": "say:sea", "answer": "sea", "scorer": "text"}\n')
    asked = ("--control", "--tasks", "t.jsonl", "--format", "json", "--max-tokens")
    done = tasked("quality", "plan.lock", *asked, "3")
    assert (done.code, done.json["eligible"]) == (1, [])
    (pair,) = done.json["pairs"]
    assert pair["outputs"] == {"equal": 1, "of": 1}
    assert [gate["name"] for gate in pair["gates"] if not gate["met"]] == ["untruncated"]
    assert [d["code"] for d in done.json["diagnostics"]] == ["P883"]
    done = tasked("quality", "plan.lock", *asked, "4", "-o", "whole.json")
    assert (done.code, done.json["eligible"]) == (0, ["plan"])


def test_two_plans_of_one_name_are_told_apart(tasked: Bench) -> None:
    tasked.edit("manifest.toml", "spec_draft_max = 4", "spec_draft_max = 3")
    assert tasked("compile", "manifest.toml", "-o", "other.lock").code == 0
    asked = ("--control", "--tasks", "t.jsonl", "--format", "markdown", "-o", "q.json")
    done = tasked("quality", "plan.lock", "other.lock", *asked)
    assert "arm tiny-2 is other.lock, whose name is taken\n" in done.stderr
    modes = json.loads((tasked.folder / "q.json").read_text())["modes"]
    assert [(mode["name"], mode["plan"]) for mode in modes[1:]] == [
        ("tiny", "tiny"),
        ("tiny-2", "tiny"),
    ]
    digests = " | ".join(f"`tiny` `{mode['plan_sha256'][:12]}`" for mode in modes)
    assert f"| plan | {digests} |" in done.stdout.decode()
