"""A quality matrix in an evidence package: derived again, and whoever lied is named."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.evidence import package
from power.evidence.index import INDEX, sign_index
from power.receipt.digests import sha256
from power.receipt.trust import trust_in
from tests.evidence.conftest import KEY, Scripted
from tests.evidence.matrices import TASKS, matrix, run

TRUST = trust_in(KEY.public_key(), "mine")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed matrix of one repetition."""
    folder = tmp_path_factory.mktemp("made")
    scripted = Scripted(folder)
    run(scripted, matrix(scripted, repetitions=1))
    package.pack(folder, KEY)
    return folder


@pytest.fixture
def packed(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "p"))


def repacked(folder: Path) -> None:
    """What a maker does who lies: the index is signed anew over whatever is there."""
    (folder / INDEX).unlink()
    names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    files = {name: sha256((folder / name).read_bytes()) for name in names}
    (folder / INDEX).write_bytes(sign_index(files, [], [], KEY, matrices=["x.json"]))


def refusal(folder: Path) -> PowerError:
    with pytest.raises(PowerError) as refused:
        package.verify(folder, TRUST)
    return refused.value


def test_what_was_packed_verifies(packed: Path) -> None:
    held = package.verify(packed, TRUST)
    assert (list(held.reports), list(held.matrices), held.receipts) == ([], ["x.json"], 8)
    assert {"x.tasks.jsonl", "x.prompts.jsonl", "x.plan.lock"} <= held.files.keys()


def test_an_index_without_matrices_does_not_speak_of_them() -> None:
    """So packages of benches alone verify with a Power that knows no matrices."""
    payload = json.loads(sign_index({"x": "0" * 64}, ["x"], [], KEY))["dsseEnvelope"]["payload"]
    assert b"matrices" not in base64.b64decode(payload)


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (lambda d: d["scores"][1].update(lenient=4), "scores[1].lenient"),
        (lambda d: d["scores"][0].update(truncated=9), "scores[0].truncated"),
        (lambda d: d["pairs"][0]["outputs"].update(equal=1), "pairs[0].outputs.equal"),
        (lambda d: d["pairs"][0]["answers"].update(of=9), "pairs[0].answers.of"),
        (lambda d: d["pairs"][0]["lenient"].update(p="0.5"), "pairs[0].lenient.p"),
        (lambda d: d["pairs"][0]["strict"]["losses"].append("sum"), "pairs[0].strict.losses[0]"),
        (lambda d: d["pairs"][0].update(eligible=False), "pairs[0].eligible"),
        (lambda d: d["pairs"][0]["gates"].pop(), "pairs[0].gates"),
        (lambda d: d["by_task"][0].update(expected="6"), "by_task[0].expected"),
        (lambda d: d["by_task"][0]["modes"][1].update(strict=True), "by_task[0].modes[1].strict"),
        (lambda d: d["runs"][2].update(answer="5"), "runs[2].answer"),
        (lambda d: d["runs"].pop(), "runs[7]"),
        (lambda d: d["modes"][1].update(strategy="mtp"), "modes[1].strategy"),
        (lambda d: d["tasks"].update(count=100), "tasks.count"),
        (lambda d: d.update(repetitions=3), "repetitions"),
    ],
)
def test_the_first_figure_that_does_not_follow_is_named(
    packed: Path, edit: Callable[[Any], None], place: str
) -> None:
    path = packed / "x.json"
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document, indent=1) + "\n")
    repacked(packed)
    error = refusal(packed)
    assert [d.code for d in error.diagnostics] == ["P854"]
    assert (error.diagnostics[0].place or "").startswith(f"x.json: {place}")
    assert error.exit_code is ExitCode.BROKEN_TRUST


def test_tasks_with_another_answer(packed: Path) -> None:
    (packed / "x.tasks.jsonl").write_bytes(TASKS.replace(b'"5"', b'"6"'))
    repacked(packed)
    assert refusal(packed).diagnostics[0].code == "P850"


def test_a_run_that_was_left_out(packed: Path) -> None:
    journal = packed / "x.journal.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    repacked(packed)
    assert refusal(packed).diagnostics[0].code == "P852"


def test_an_output_that_was_not_signed(packed: Path) -> None:
    """The text of a line of the journal is what the receipt's digest is of."""
    journal = packed / "x.journal.jsonl"
    *head, last = journal.read_text().splitlines(keepends=True)
    line = json.loads(last)
    line["body"]["text"] = "Answer: a heron waits"
    journal.write_text("".join([*head, json.dumps(line, separators=(",", ":")) + "\n"]))
    repacked(packed)
    assert refusal(packed).exit_code is ExitCode.BROKEN_TRUST
