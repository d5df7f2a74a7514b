"""Runs that end before their end: what was shown is the plan's text, and nothing is signed."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from power.receipt.keys import load_public
from power.receipt.trust import trust_in
from power.receipt.verify import verify_receipt
from tests.faults.conftest import End, Zygote, workers_of
from tests.faults.points import FAULTS

pytestmark = [pytest.mark.engine, pytest.mark.slow]

PROMPT = "one two three one two three one two"
RUN = ("run", "plan.lock", "--prompt", PROMPT)
ENDS = {"kill": -9, "term": 130, "interrupt": 130, "memory": 4, "worker": 4}
CODES = {"memory": "P709", "worker": "P517"}


@pytest.fixture
def ready(zygote: Zygote, folder: Path) -> Path:
    """The folder with a key and a plan."""
    assert zygote(folder, "key", "new", "key.pem").code == 0
    assert zygote(folder, "compile", "manifest.toml").code == 0
    return folder


def receipts(folder: Path) -> list[Path]:
    """The receipts there; every one of them holds."""
    found = sorted(folder.glob("receipts/*.sigstore.json"))
    key = load_public(folder / "key.pem.pub")
    for path in found:
        verify_receipt(path.read_bytes(), trust_in(key), plan=(folder / "plan.lock").read_bytes())
    return found


def nothing_runs(end: End) -> None:
    """A worker of a killed parent has been told to die; it is gone soon."""
    _, alive = psutil.wait_procs(workers_of(end.pid), timeout=20)
    assert alive == []


def test_a_fault_at_any_message_of_the_worker(zygote: Zygote, ready: Path) -> None:
    whole = zygote(ready, *RUN)
    assert whole.code == 0, whole
    signed = receipts(ready)
    for fault, code in ENDS.items():
        for message in (0, 1, 3, 6, 10):
            end = zygote(ready, *RUN, fault=fault, message=message)
            assert end.code == code, (fault, message, end)
            assert "Traceback" not in end.stderr, end.stderr
            assert CODES.get(fault, "") in end.stderr
            assert whole.stdout.startswith(end.stdout), (fault, message)
            assert receipts(ready) == signed
            nothing_runs(end)


@pytest.mark.parametrize("fault", ["kill", "full"])
def test_a_fault_at_any_step_of_signing(zygote: Zygote, ready: Path, fault: str) -> None:
    for step in range(40):
        before = receipts(ready)
        end = zygote(ready, *RUN, fault=fault, step=step)
        assert "Traceback" not in end.stderr, end.stderr
        nothing_runs(end)
        new = set(receipts(ready)) - set(before)
        if end.code == 0:
            assert len(new) == 1
            break
        assert end.code in {"kill": {-9}, "full": {2, 4}}[fault], (step, end)
    else:
        pytest.fail("the steps have no end")
    assert step > 3


def test_a_killed_batch_goes_on(zygote: Zygote, ready: Path) -> None:
    prompts = [{"id": name, "prompt": f"{name} two one two", "max_tokens": 4} for name in "abc"]
    (ready / "p.jsonl").write_text("".join(json.dumps(p) + "\n" for p in prompts), "utf-8")
    batch = ("run", "plan.lock", "--prompts", "p.jsonl", "--out", "o.jsonl")
    for kills in range(60):  # each time it gets two steps further than the time before
        end = zygote(ready, *batch, fault="kill", step=2 * kills + 1)
        nothing_runs(end)
        if end.code == 0:
            break
        assert end.code == -9, end
    else:
        pytest.fail("the batch has no end")
    answers = [json.loads(line) for line in (ready / "o.jsonl").read_text("utf-8").splitlines()]
    assert [answer["id"] for answer in answers] == list("abc")
    found = {json.loads(path.read_bytes())["dsseEnvelope"]["payload"] for path in receipts(ready)}
    assert len(found) >= len(prompts)
    assert kills >= 3


def test_every_fault_is_here() -> None:
    """`full` and `broken` are of files, `worker` of a run; all others are of both."""
    assert set(ENDS) - {"worker"} == set(FAULTS) - {"full", "broken"}
