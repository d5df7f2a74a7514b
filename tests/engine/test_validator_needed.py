"""Why the contracts refuse: past them, the engine ends its process or drafts nonsense."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from power.artifact.contracts.pair import check_pair
from power.artifact.header import Header, read_header
from power.diagnostics import PowerError, as_text
from tests.artifact.broken_drafts import BROKEN, DRAFTS, Broken
from tests.artifact.build import llama
from tests.engine import past_the_validator

Outcomes = dict[str, list[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Target and draft of every broken pair, and of every good one under its kind."""
    folder = tmp_path_factory.mktemp("broken")
    good = {kind: (llama().encode(), build().encode()) for kind, build in DRAFTS.items()}
    pairs = good | {name: broken.files() for name, broken in BROKEN.items()}
    out = {}
    for number, (name, (target, draft)) in enumerate(pairs.items()):
        out[name] = folder / f"{number}-target.gguf", folder / f"{number}-draft.gguf"
        for path, data in zip(out[name], (target, draft), strict=True):
            path.write_bytes(data)
    return out


@pytest.fixture(scope="module")
def outcomes(files: dict[str, tuple[Path, Path]]) -> Outcomes:
    """What the engine did with each, in processes that may die."""
    kinds = {name: broken.driven or broken.kind for name, broken in BROKEN.items()}
    cases = [(kinds.get(name, name), *map(str, paths)) for name, paths in files.items()]
    done = subprocess.run(
        [sys.executable, past_the_validator.__file__],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(files, json.loads(done.stdout), strict=True))


def header(path: Path) -> Header:
    with path.open("rb") as file:
        return read_header(file.fileno(), path.stat().st_size, path.name)


@pytest.mark.parametrize("name", BROKEN)
def test_the_contract_refuses(name: str, files: dict[str, tuple[Path, Path]]) -> None:
    broken: Broken = BROKEN[name]
    target, draft = map(header, files[name])
    with pytest.raises(PowerError) as caught:
        check_pair(broken.driven or broken.kind, draft, target)
    shown = as_text(caught.value.diagnostics)
    assert f"error[{broken.code}]" in shown
    assert broken.mention in shown
    assert all(d.expected and d.found for d in caught.value.diagnostics)


@pytest.mark.parametrize("name", BROKEN)
def test_the_engine_does_not(name: str, outcomes: Outcomes) -> None:
    """It dies, or takes the file in silence; where it says no itself, no vector is needed."""
    how, stage, words = outcomes[name]
    assert how == BROKEN[name].past, (stage, words)


@pytest.mark.parametrize("kind", DRAFTS)
def test_it_takes_what_a_contract_accepts(
    kind: str, files: dict[str, tuple[Path, Path]], outcomes: Outcomes
) -> None:
    target, draft = map(header, files[kind])
    assert check_pair(kind, draft, target).kind == kind
    assert outcomes[kind][0] == "takes", outcomes[kind]
