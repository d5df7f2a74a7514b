"""Receipt files: a new name for each run, whole or not at all, never overwritten."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from power.diagnostics import PowerError
from power.receipt import bundle, files
from power.receipt.statement import build_statement
from tests.receipt import samples

KEY = samples.KEYS["ed25519"]
RECEIPT = bundle.sign(samples.sample_statement(), KEY)


def test_a_name_by_time_plan_and_identity(tmp_path: Path) -> None:
    path = files.write_receipt(RECEIPT, folder=tmp_path)
    assert path.parent == tmp_path / "receipts"
    assert path.name.startswith("20260823T101113Z-sample-")
    assert path.name.endswith(".sigstore.json")
    assert files.read_receipt(path) == RECEIPT
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_each_run_has_a_name_of_its_own(tmp_path: Path) -> None:
    plan = samples.sample_plan()
    for wall in (0, 1, 2):  # three runs that ended in the same second
        phases = samples.RECORD.phases_us | {"other": 200 + wall}
        record = replace(samples.RECORD, wall_us=10_000 + wall, phases_us=phases)
        statement = build_statement(plan, samples.plan_bytes(plan), samples.REQUEST, record)
        files.write_receipt(bundle.sign(statement, KEY), folder=tmp_path)
    assert len(list((tmp_path / "receipts").iterdir())) == 3


@pytest.mark.parametrize("name", ["../../climbed", "/climbed", "a/b", "..", "a\n", "A", "a" * 64])
def test_a_name_that_could_be_a_path_is_left_out(tmp_path: Path, name: str) -> None:
    statement = samples.sample_statement()
    statement["predicate"]["plan"]["name"] = name
    path = files.write_receipt(bundle.sign(statement, KEY), folder=tmp_path)
    assert path.parent == tmp_path / "receipts"
    assert re.fullmatch(r"20260823T101113Z-[0-9a-f]{12}\.sigstore\.json", path.name)


@pytest.mark.parametrize("named", [True, False])
def test_nothing_is_overwritten(tmp_path: Path, named: bool) -> None:
    path = tmp_path / "my.json" if named else None
    there = files.write_receipt(RECEIPT, path, tmp_path)
    there.write_bytes(b"precious")
    with pytest.raises(PowerError) as refused:
        files.write_receipt(RECEIPT, path, tmp_path)
    assert [d.code for d in refused.value.diagnostics] == ["P440"]
    assert there.read_bytes() == b"precious"


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "receipts").write_bytes(b"")
    with pytest.raises(PowerError) as refused:
        files.write_receipt(RECEIPT, folder=tmp_path)
    assert [d.code for d in refused.value.diagnostics] == ["P441"]


@pytest.mark.parametrize("name", ["none.json", "."])
def test_what_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(PowerError) as refused:
        files.read_receipt(tmp_path / name)
    assert [d.code for d in refused.value.diagnostics] == ["P605"]


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(PowerError) as refused:
        files.read_receipt(path)
    assert [d.code for d in refused.value.diagnostics] == ["P605"]


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PowerError, match="it is a pipe"):
        files.read_receipt(tmp_path / "pipe")


def test_a_receipt_is_one_line_of_json() -> None:
    assert RECEIPT.count(b"\n") == 1
    assert RECEIPT.endswith(b"\n")
    assert set(json.loads(RECEIPT)) == {"mediaType", "verificationMaterial", "dsseEnvelope"}
