"""The checked-in manifests and profiles: each is taken, or refused with its code in its place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import PowerError, as_github, as_json, as_text
from power.manifest.effective import load_effective
from power.manifest.load import load_profile

FOLDER = Path(__file__).parents[1] / "vectors" / "manifests"
INDEX: list[dict[str, Any]] = json.loads((FOLDER / "index.json").read_bytes())
READ: dict[str, Callable[[Path], object]] = {"manifest": load_effective, "profile": load_profile}


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["file"])
def test_verdict(entry: dict[str, Any]) -> None:
    try:
        READ[entry["kind"]](FOLDER / entry["file"])
    except PowerError as error:
        (found,) = error.diagnostics
        exit_code = error.exit_code
    else:
        assert entry["verdict"] == "accept"
        return
    place = (found.spans[0].line, found.spans[0].column) if found.spans else (None, None)
    assert (found.code, *place, exit_code) == (entry["verdict"], entry["line"], entry["column"], 2)
    assert found.hint
    assert found.spans or found.place
    shown = (as_text([found]), as_github([found]), json.dumps(as_json([found])))
    assert all(line.isprintable() for text in shown for line in text.splitlines())


def test_the_index_lists_every_file_once_under_its_verdict() -> None:
    listed = Counter(entry["file"] for entry in INDEX)
    assert listed == Counter(path.name for path in FOLDER.glob("*.toml"))
    assert [e for e in INDEX if not e["file"].startswith(f"{e['verdict']}-")] == []


def test_there_are_enough_of_them() -> None:
    refused = [entry for entry in INDEX if entry["verdict"] != "accept"]
    assert len(refused) >= 200
    assert len({entry["verdict"] for entry in refused}) >= 30
