"""What the contracts let through, the engine survives: one thing changed in each file.

The vectors show that the contracts are needed. These show that they are enough, as far
as single changes go: every key and every tensor of a good pair, each made wrong.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from power.artifact.header import Header, read_header
from power.diagnostics import PowerError
from power.plan.judge import judge
from tests.artifact.build import ARRAY, F32, I32, TYPES, U32, Gguf
from tests.engine import past_the_validator
from tests.vectors.drafts.broken import DRAFTS, TARGETS

TARGET_OF = dict.fromkeys(DRAFTS, "llama") | {"mtp": "qwen35"}
VALUES: dict[int, tuple[float, ...]] = {
    U32: (0, 7, 100_000, 2**32 - 1),
    F32: (0.0, 1e30),
}
SECTIONS = ([0] * 4, [9] * 4, [-1, 1, 1, 0], [1, 1])

NUMBERS = count()

Change = Callable[[Gguf], object]
Outcomes = dict[tuple[str, str], list[str]]


class Mutant(NamedTuple):
    """A pair with one change in one of its files."""

    kind: str
    what: str
    target: Path
    draft: Path


def changes_of_keys(good: Gguf) -> Iterator[tuple[str, Change]]:
    """Every key of the architecture: other numbers, an array in its place, and gone."""
    for key, kind, raw in good.pairs:
        if not isinstance(key, str) or key.startswith(("general.", "tokenizer.")):
            continue
        for value in VALUES.get(kind, ()):
            yield f"{key} = {value}", _put(key, kind, value)
        if kind == U32:
            (number,) = struct.unpack("<I", raw)
            for array in ([number] * 3, [number, 0, number]):
                yield f"{key} = {array}", _put_array(key, U32, array)
        if kind == ARRAY and key.endswith("sections"):
            for array in SECTIONS:
                yield f"{key} = {array}", _put_array(key, I32, array)
        yield f"no {key}", _drop(key)


def changes_of_tensors(good: Gguf) -> Iterator[tuple[str, Change]]:
    """Every tensor: other shapes and types, and gone."""
    for tensor in good.tensors:
        name, shape = str(tensor.name), tensor.shape
        others = {(*shape, 2), tuple(reversed(shape)), tuple(2 * size for size in shape)}
        for other in sorted(others - {shape}):
            yield f"{name} {other}", _tensor(name, other)
        for kind in ("F16", "F64") if len(shape) == 1 else ("F64",):  # matrices may be F16
            yield f"{name} {kind}", _tensor(name, type=TYPES[kind])
        yield f"no {name}", _drop(name)


def _put(key: str, kind: Any, value: float) -> Change:
    return lambda g: g.put(key, kind, value)


def _put_array(key: str, kind: Any, values: list[int]) -> Change:
    return lambda g: g.put_array(key, kind, values)


def _tensor(name: str, shape: tuple[int, ...] = (), **to: Any) -> Change:
    return lambda g: g.tensor(name, shape, data=None, **to)


def _drop(name: str) -> Change:
    return lambda g: g.drop(name)


def header(path: Path) -> Header:
    with path.open("rb") as file:
        return read_header(file.fileno(), path.stat().st_size, path.name)


def accepted(folder: Path) -> Iterator[Mutant]:
    """Those that no contract refuses, written below `folder`."""
    for kind, make in DRAFTS.items():
        good = {"draft": make, "target": TARGETS[TARGET_OF[kind]]}
        for which in good if kind in {"dflash", "mtp"} else ("draft",):
            whole = good[which]()
            for what, change in (*changes_of_keys(whole), *changes_of_tensors(whole)):
                pair = {name: build() for name, build in good.items()}
                change(pair[which])
                mutant = _written(folder, kind, f"{which}: {what}", pair)
                if _let_through(mutant):
                    yield mutant


def _written(folder: Path, kind: str, what: str, pair: dict[str, Gguf]) -> Mutant:
    number = next(NUMBERS)
    paths = {name: folder / f"{number}-{name}.gguf" for name in pair}
    for name, gguf in pair.items():
        paths[name].write_bytes(gguf.encode())
    return Mutant(kind, what, paths["target"], paths["draft"])


def _let_through(mutant: Mutant) -> bool:
    try:
        judge(header(mutant.target), header(mutant.draft), mutant.kind)
    except PowerError:
        mutant.target.unlink()
        mutant.draft.unlink()
        return False
    return True


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What the engine does with each that was let through."""
    mutants = list(accepted(tmp_path_factory.mktemp("mutants")))
    done = subprocess.run(
        [sys.executable, past_the_validator.__file__],
        input=json.dumps([(m.kind, str(m.target), str(m.draft)) for m in mutants]),
        capture_output=True,
        text=True,
        check=True,
    )
    return {(m.kind, m.what): how for m, how in zip(mutants, json.loads(done.stdout), strict=True)}


def test_nothing_that_is_let_through_ends_the_engine(outcomes: Outcomes) -> None:
    assert len(outcomes) > 50
    assert {name: how for name, how in outcomes.items() if how[0] == "dies"} == {}


def test_the_engine_takes_every_draft_that_is_let_through(outcomes: Outcomes) -> None:
    """But for those whose every number is allowed and whose arithmetic gives none."""
    drafts = {name: how for name, how in outcomes.items() if name[1].startswith("draft: ")}
    refused = {name: how for name, how in drafts.items() if how[0] != "takes"}
    no_numbers = {name for name, how in refused.items() if how[2].endswith("is no number")}
    assert {name: how for name, how in refused.items() if name not in no_numbers} == {}
    assert {what for _, what in no_numbers} <= {
        f"draft: {kind}.attention.layer_norm_rms_epsilon = 0.0" for kind in ("dflash", "eagle3")
    }
