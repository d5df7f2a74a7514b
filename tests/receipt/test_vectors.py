"""The checked-in receipts: each gets its verdict, and the script makes the same bytes again."""

import json
from collections import Counter

import pytest

from power.diagnostics import PowerError
from power.receipt.trust import load_trust
from power.receipt.verify import verify_receipt
from tests.receipt import vectors as build

INDEX = json.loads((build.FOLDER / "index.json").read_bytes())


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["file"])
def test_verdict(entry: dict[str, str]) -> None:
    try:
        verify_receipt(
            (build.FOLDER / entry["file"]).read_bytes(),
            load_trust(build.FOLDER / "trust.toml"),
            plan=(build.FOLDER / "plan.lock").read_bytes(),
            output=(build.FOLDER / "output.txt").read_bytes(),
        )
    except PowerError as error:
        verdicts = {d.code for d in error.diagnostics}
    else:
        verdicts = {build.ACCEPT}
    assert verdicts == set(entry["verdict"].split())


def test_the_script_makes_them_unchanged() -> None:
    there = {p.name: p.read_bytes() for p in build.FOLDER.iterdir() if p.is_file()}
    assert build.files() == there


def test_names_are_used_once() -> None:
    assert [n for n, count in Counter(v.name for v in build.vectors()).items() if count > 1] == []


def test_the_control_run_makes_the_same_claim() -> None:
    trust = load_trust(build.FOLDER / "trust.toml")
    run, control = (
        verify_receipt((build.FOLDER / name).read_bytes(), trust).statement.predicate
        for name in ("ed25519.sigstore.json", "control.sigstore.json")
    )
    assert run.claim_sha256 == control.claim_sha256
    assert (run.request.control, control.request.control) == (False, True)
