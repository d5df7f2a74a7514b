"""Every file of the corpus gets its verdict, says what it must, and costs little."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from power.artifact.inspection import inspect
from tests.artifact import judge_corpus
from tests.artifact.conftest import Refusal

CORPUS = Path(__file__).parents[1] / "vectors" / "corpus"
ENTRIES: list[dict[str, Any]] = json.loads((CORPUS / "corpus.json").read_text("utf-8"))["entries"]
# Its shards differ from those of a good model in tensor data only: a digest is needed, as
# tests/plan/test_compile.py shows with a manifest.
ONLY_A_DIGEST_TELLS = "split-mixed"


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-W", "error", judge_corpus.__file__, str(CORPUS)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["id"]: line for line in lines}


def test_the_corpus_is_whole() -> None:
    assert len(ENTRIES) == 109
    wrong = [
        entry["id"]
        for entry in ENTRIES
        if hashlib.sha256((CORPUS / entry["path"]).read_bytes()).hexdigest() != entry["sha256"]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "entry",
    [entry for entry in ENTRIES if entry["id"] != ONLY_A_DIGEST_TELLS],
    ids=lambda entry: entry["id"],
)
def test_verdict(entry: dict[str, Any], answers: dict[str, dict[str, Any]]) -> None:
    """Rejected files name what is wrong and where; the others pass (some fail later, elsewhere)."""
    answer = answers[entry["id"]]
    assert answer["signal"] == 0, "ended by a limit on memory or processor time"
    assert answer["peak_kib"] * 1024 < judge_corpus.MEMORY
    if entry["verdict"] != "reject":
        assert answer["exit"] == 0, answer["text"]
        return
    assert answer["exit"] == 2, answer["text"]
    assert [part for part in entry["mention"] if part not in answer["text"]] == []
    if "offset" in entry:
        assert f" at byte {entry['offset']}\n" in answer["text"]


@pytest.mark.parametrize(
    "entry",
    [e for e in ENTRIES if e["verdict"] == "reject" and e["id"] != ONLY_A_DIGEST_TELLS],
    ids=lambda entry: entry["id"],
)
def test_a_refusal_is_readable(entry: dict[str, Any], answers: dict[str, dict[str, Any]]) -> None:
    """Nothing from the file reaches the terminal raw, and each finding has a next action."""
    text = answers[entry["id"]]["text"]
    assert all(line.isprintable() for line in text.splitlines())
    assert text.count("error[P") == text.count("hint: ")


def test_a_shard_of_another_model_is_told_by_its_digest(refusal: Refusal) -> None:
    good, mixed = (
        CORPUS / "split" / name / "m-00001-of-00002.gguf"
        for name in ("good-split-2", "split-mixed")
    )
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in good.parent.glob("*.gguf")
    }
    assert len(inspect(good, None, None, digests)["files"]) == 2
    shown = refusal(lambda: inspect(mixed, None, None, digests))
    assert "m-00002-of-00002.gguf" in shown
    assert "sha256" in shown
    assert digests["m-00002-of-00002.gguf"] in shown


def test_only_a_digest_tells_a_shard_of_another_model() -> None:
    """Without one there is nothing to see: the headers are the same."""
    mixed = CORPUS / "split" / ONLY_A_DIGEST_TELLS / "m-00001-of-00002.gguf"
    good = CORPUS / "split" / "good-split-2" / "m-00001-of-00002.gguf"
    assert inspect(mixed, None, None) == inspect(good, None, None)
