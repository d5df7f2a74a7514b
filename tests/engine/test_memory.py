"""The memory that is estimated at compile is what the engine says it allocates."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from power.artifact.memory import footprint
from power.artifact.opened import OpenArtifact
from power.backends.llamacpp.library import LOG, native
from tests.artifact import build

CELLS = 1024 * 256  # enough that the sizes show in the log's MiB


def made(folder: Path, name: str, gguf: build.Gguf) -> Path:
    path = folder / name
    path.write_bytes(gguf.encode())
    return path


@contextmanager
def context(path: Path, *, kind: int = 0, snapshots: int = 0) -> Iterator[str]:
    """What the engine logs while it makes a context; `kind` 1: of the native head."""
    lib: Any = native()
    params = lib.llama_model_default_params()
    params.load_mtp = True
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    assert model
    shape = lib.llama_context_default_params()
    shape.n_ctx, shape.n_batch, shape.n_ubatch = CELLS, 32, 32
    shape.ctx_type, shape.n_rs_seq, shape.flash_attn_type = kind, snapshots, 1
    LOG.clear()
    made = lib.llama_init_from_model(model, shape)
    assert made
    yield LOG.text()
    lib.llama_free(made)
    lib.llama_model_free(model)


def logged(log: str, who: str) -> float:
    """The sum of `size = x MiB` that `who` says."""
    return sum(
        float(size) for size in re.findall(rf"^{who}: size = +([\d.]+) MiB", log, re.MULTILINE)
    )


def expected(path: Path) -> Any:
    with OpenArtifact.open(path.name, [path.parent]) as artifact:
        return footprint(artifact.header)


def hybrid() -> build.Gguf:
    """One recurrent block with a state of 276,480 bytes, one with attention, one native head."""
    gguf = build.qwen35()
    for key, value in (("state_size", 64), ("time_step_rank", 16), ("inner_size", 1024)):
        gguf.put(f"qwen35.ssm.{key}", build.U32, value)
    for name, shape in (
        ("attn_qkv.weight", (build.WIDTH, 1152)),
        ("attn_gate.weight", (build.WIDTH, 1024)),
        ("ssm_conv1d.weight", (4, 1152)),
        ("ssm_dt.bias", (16,)),
        ("ssm_a", (16,)),
        ("ssm_beta.weight", (build.WIDTH, 16)),
        ("ssm_alpha.weight", (build.WIDTH, 16)),
        ("ssm_norm.weight", (64,)),
        ("ssm_out.weight", (1024, build.WIDTH)),
    ):
        gguf.tensor(f"blk.0.{name}", shape)
    return gguf


@pytest.mark.complaint(n=16)
@pytest.mark.parametrize("snapshots", [0, 7])
def test_a_hybrid_model(tmp_path: Path, snapshots: int) -> None:
    path = made(tmp_path, "hybrid.gguf", hybrid())
    own = expected(path)
    with context(path, snapshots=snapshots) as log:
        assert logged(log, "llama_kv_cache") == pytest.approx(own.cell * CELLS / 2**20, abs=0.01)
        state = own.state * (1 + snapshots) / 2**20
        assert logged(log, "llama_memory_recurrent") == pytest.approx(state, abs=0.006)
    with context(path, kind=1) as log:
        cells = own.prediction_cell * CELLS / 2**20
        assert logged(log, "llama_kv_cache") == pytest.approx(cells, abs=0.01)


def test_a_pure_cache(tmp_path: Path) -> None:
    path = made(tmp_path, "pure.gguf", build.llama())
    with context(path) as log:
        own = expected(path)
        assert logged(log, "llama_kv_cache") == pytest.approx(own.cell * CELLS / 2**20, abs=0.01)
