"""The estimate of memory: every part from the plan and the headers, none from the host."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from power.artifact.header import Header, read_header
from power.diagnostics import ExitCode, PowerError
from power.plan.compiler import compile_plan
from power.plan.memory import Memory, estimate, require_room
from tests.artifact import build
from tests.plan.conftest import MakeInputs, Workspace

CELL = build.HEADS * build.HEAD * 4
STATE = 4 * (3 * 32 + 8 * 16)
HYBRID = {"recurrent": True, "nextn_layers": 1, "vocabulary": 100}
ReadHeader = Callable[[build.Gguf], Header]


@pytest.fixture
def header_of(tmp_path: Path) -> Iterator[ReadHeader]:
    fds: list[int] = []

    def read(gguf: build.Gguf) -> Header:
        path = tmp_path / f"{len(fds)}.gguf"
        path.write_bytes(gguf.encode())
        fds.append(os.open(path, os.O_RDONLY))
        return read_header(fds[-1], path.stat().st_size, path.name)

    yield read
    for fd in fds:
        os.close(fd)


@pytest.mark.complaint(n=16)
@pytest.mark.parametrize(
    ("k", "s", "states"),
    [(7, 7, 7), (6, 6, 6), (3, 7, 3), (7, 6, 7), (10, 6, 7)],
    ids=["K7S7", "K6S6", "S above K", "K7S6 with the state of a replay", "K10S6"],
)
def test_a_recurrent_target_pays_for_its_snapshots(
    make_inputs: MakeInputs, header_of: ReadHeader, k: int, s: int, states: int
) -> None:
    asked: dict[str, Any] = {"spec_draft_max": k, "spec_mtp_recurrent_snapshots": s}
    inputs = make_inputs(
        speculation={"spec_mode": "mtp", **asked}, graph={"context": 1000}, header=HYBRID
    )
    found = estimate(compile_plan(inputs), header_of(build.qwen35()), None)
    assert found == Memory(
        weights=9,
        draft_weights=0,
        cache=1024 * CELL,
        state=STATE,
        snapshots=states * STATE,
        draft_cache=1024 * CELL,
        draft_head=0,
        logits=(k + 1) * 100 * 4,
    )
    assert found.total == 9 + 2048 * CELL + (1 + states) * STATE + (k + 1) * 400


def test_without_speculation_there_is_one_state(
    make_inputs: MakeInputs, header_of: ReadHeader
) -> None:
    inputs = make_inputs(speculation={"spec_mode": "off"}, graph={"context": 1000}, header=HYBRID)
    found = estimate(compile_plan(inputs), header_of(build.qwen35()), None)
    assert found is not None
    assert (found.state, found.snapshots, found.draft_cache) == (STATE, 0, 0)


def test_the_rows_of_a_native_head_are_held_beside_it(
    make_inputs: MakeInputs, header_of: ReadHeader
) -> None:
    asked = {"spec_mode": "mtp", "spec_mtp_fr_vocab_size": 8192}
    wide = HYBRID | {"vocabulary": 49152}
    inputs = make_inputs(speculation=asked, graph={"context": 1000}, header=wide)
    found = estimate(compile_plan(inputs), header_of(build.qwen35()), None)
    assert found is not None
    assert found.draft_head == 8192 * 576 * 4


def test_a_table_is_no_model(make_inputs: MakeInputs, header_of: ReadHeader) -> None:
    """Its rows are held beside the native head; it has neither a cache nor weights to speak of."""
    inputs = make_inputs(
        kind="mtp", fr_vocabulary=700, graph={"context": 1000}, header={"nextn_layers": 1}
    )
    table = header_of(build.native_table(range(700)))
    found = estimate(compile_plan(inputs), header_of(build.qwen35()), table)
    assert found is not None
    assert (found.draft_weights, found.draft_head) == (7, 700 * 576 * 4)
    assert found.draft_cache == 1024 * CELL


def test_a_draft_has_weights_and_a_cache(make_inputs: MakeInputs, header_of: ReadHeader) -> None:
    inputs = make_inputs(kind="dspark", speculation={"spec_draft_max": 7}, graph={"context": 1024})
    plan = compile_plan(inputs)
    found = estimate(plan, header_of(build.llama(3)), header_of(build.dspark()))
    assert found is not None
    assert (found.cache, found.draft_cache) == (1280 * 3 * CELL, 1280 * CELL)
    assert (found.draft_weights, found.state, found.snapshots) == (7, 0, 0)


def test_every_shard_counts(make_inputs: MakeInputs, header_of: ReadHeader) -> None:
    plan = compile_plan(make_inputs(speculation={"spec_mode": "off"}))
    shard = {"path": "t.gguf", "bytes": 9, "sha256": "a" * 64}
    body = plan.model_dump(mode="python")
    body["target"]["shards"] = [shard, shard | {"bytes": 5}]
    found = estimate(type(plan).model_validate(body), header_of(build.llama()), None)
    assert found is not None
    assert found.weights == 14


def test_nothing_is_said_of_an_unknown_memory(
    make_inputs: MakeInputs, header_of: ReadHeader
) -> None:
    plan = compile_plan(make_inputs(speculation={"spec_mode": "off"}))
    strange = header_of(build.sizes(build.Gguf(), "mamba2", 2))
    assert estimate(plan, strange, None) is None
    assert estimate(plan, header_of(build.llama()), strange) is None


ROOMY = Memory(100, 20, 7, 1, 5, 3, 0, 4)


@pytest.mark.parametrize("free", [20, 21, None])
def test_a_plan_with_room_may_run(free: int | None) -> None:
    assert ROOMY.beside_weights == 20
    require_room(ROOMY, free)
    require_room(None, free)


@pytest.mark.parametrize(
    ("memory", "key"),
    [
        (ROOMY, "`graph.context`"),
        (replace(ROOMY, snapshots=90), "`spec_mtp_recurrent_snapshots`"),
        (replace(ROOMY, draft_cache=90), "`graph.context`"),
        (replace(ROOMY, draft_head=90), "`spec_mtp_fr_vocab_size`"),
        (replace(ROOMY, logits=90), "`spec_draft_max`"),
    ],
    ids=["cache", "snapshots", "draft cache", "draft head", "logits"],
)
def test_a_plan_without_room_is_told_what_to_lower(memory: Memory, key: str) -> None:
    with pytest.raises(PowerError) as caught:
        require_room(memory, 19)
    (found,) = caught.value.diagnostics
    assert (found.code, found.found) == ("P448", "0.0 MiB free")
    assert memory.text() in (found.expected or "")
    assert found.hint == f"lower {key} and compile again, or close other programs"
    assert caught.value.exit_code is ExitCode.ENGINE_FAILED


def test_the_line_for_a_person() -> None:
    memory = Memory(3 << 20, 0, 1 << 19, 0, 0, 0, 0, 1 << 18)
    assert memory.text() == "about 3.8 MiB: weights 3.0 MiB, cache 0.5 MiB, logits 0.2 MiB"


def test_compiling_tells_it(workspace: Workspace) -> None:
    memory = workspace.compile().memory
    assert memory is not None
    weights = (workspace.folder / "t.gguf").stat().st_size
    assert memory.weights == weights
    assert memory.draft_cache > 0
