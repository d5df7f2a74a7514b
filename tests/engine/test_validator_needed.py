"""Why the contracts refuse: past them, the engine ends its process or drafts nonsense."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from power.artifact.contracts.common import KINDS
from power.artifact.header import Header, read_header
from power.diagnostics import PowerError, as_text
from power.plan.judge import judge
from tests.engine import past_the_validator
from tests.vectors.drafts import build

Entry = dict[str, str]
INDEX: list[Entry] = json.loads((build.FOLDER / "index.json").read_bytes())
GOOD = [entry for entry in INDEX if entry["verdict"] == "accept"]
BROKEN = [entry for entry in INDEX if entry["verdict"] == "reject"]


def by_file(entry: Entry) -> str:
    return entry["file"]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[str]]:
    """What the engine did with each, in processes that may die."""
    keys = ("target", "file")
    cases = [(e["kind"], *(str(build.FOLDER / e[key]) for key in keys)) for e in INDEX]
    done = subprocess.run(
        [sys.executable, past_the_validator.__file__],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(map(by_file, INDEX), json.loads(done.stdout), strict=True))


def header(name: str) -> Header:
    path: Path = build.FOLDER / name
    with path.open("rb") as file:
        return read_header(file.fileno(), path.stat().st_size, path.name)


def test_the_script_makes_them_unchanged() -> None:
    programs = {"build.py", "broken.py"}
    there = {
        p.name: p.read_bytes()
        for p in build.FOLDER.iterdir()
        if p.is_file() and p.name not in programs
    }
    made = build.files()
    assert {name for name in made if made[name] != there.get(name)} == set()
    assert there.keys() == made.keys()


def test_every_kind_has_vectors() -> None:
    kinds = set(KINDS) - {"draft-model"}  # a whole model: the corpus has those
    assert (
        {entry["kind"] for entry in GOOD}
        == {entry["kind"] for entry in BROKEN} | {"dflash2"}
        == kinds
    )


@pytest.mark.complaint(n=4)
@pytest.mark.parametrize("entry", BROKEN, ids=by_file)
def test_the_contract_refuses(entry: Entry) -> None:
    with pytest.raises(PowerError) as caught:
        judge(header(entry["target"]), header(entry["file"]), entry["kind"])
    shown = as_text(caught.value.diagnostics)
    assert f"error[{entry['code']}]" in shown
    assert entry["mention"] in shown
    assert all(d.expected and d.found for d in caught.value.diagnostics)


@pytest.mark.parametrize("entry", BROKEN, ids=by_file)
def test_the_engine_does_not(entry: Entry, outcomes: dict[str, list[str]]) -> None:
    """It dies, or takes the file in silence; or it, or Power's adapter, says no as well."""
    how, stage, words = outcomes[entry["file"]]
    assert how == entry["engine"], (stage, words)


@pytest.mark.parametrize("entry", GOOD, ids=by_file)
def test_it_takes_what_a_contract_accepts(entry: Entry, outcomes: dict[str, list[str]]) -> None:
    found = judge(header(entry["target"]), header(entry["file"]), entry["kind"]).draft
    assert found is not None
    assert found.pair.kind == entry["kind"]
    assert outcomes[entry["file"]][0] == entry["engine"] == "takes", outcomes[entry["file"]]
