"""An installation that conforms says n of n; one that does not says where."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from power.cli.verbs.conformance import command
from power.diagnostics import PowerError
from power.evidence import conformance
from power.evidence.conformance import Miss, check_conformance
from power.manifest.shipped import shipped
from power.receipt import dsse


def test_this_tree_conforms() -> None:
    done = check_conformance()
    assert done.misses == ()
    assert set(done.total) == {"manifests", "plans", "artifacts", "receipts"}
    assert all(done.right(name) == count >= 40 for name, count in done.total.items())


def test_a_signature_that_always_holds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dsse.Envelope, "signed_by", lambda *_: True)
    found = {miss.file for miss in check_conformance().misses}
    assert {"borrowed-keyid.sigstore.json", "flipped-signature.sigstore.json"} <= found


def test_a_reader_that_crashes_is_told_by_the_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise LookupError

    monkeypatch.setattr(conformance, "load_profile", crash)
    misses = [miss for miss in check_conformance().misses if "accept" in miss.file]
    assert misses == [
        Miss("manifests", "accept-profile.toml", "accept", "LookupError instead of a diagnostic")
    ]


def test_a_miss_is_shown_and_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dsse.Envelope, "signed_by", lambda *_: True)
    done = CliRunner().invoke(command, [])
    assert done.exit_code == 1
    assert "WRONG  receipts/borrowed-keyid.sigstore.json: expected P624, found" in done.output
    right, total = done.output.splitlines()[-1].removeprefix("all").split(" of ")
    assert int(right) < int(total)


@pytest.mark.parametrize("what", ["nothing", "no list of receipts"])
def test_vectors_that_are_not_there_are_no_verdict(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "vectors"
    if what != "nothing":
        shutil.copytree(shipped("vectors"), folder)
        (folder / "receipts" / "index.json").unlink()
    with pytest.raises(PowerError) as caught:
        check_conformance(folder)
    assert [d.code for d in caught.value.diagnostics] == ["P860"]
