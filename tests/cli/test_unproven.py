"""A model whose tensors only the engine knows, and whose load ends the engine's process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.artifact import build
from tests.artifact.build import F32, U32
from tests.artifact.test_engine_rules import renamed
from tests.cli.conftest import Bench, Result, compiled, manifest_for

pytestmark = pytest.mark.engine

SIZES = {
    "expert_count": 8,
    "expert_used_count": 2,
    "expert_feed_forward_length": 64,
    "experts_per_group": 0,  # its loader asserts that there are some
}


@pytest.fixture
def unproven(bench: Bench) -> Bench:
    gguf = build.qwen().put("qwen3.expert_group_scale", F32, 1.0)
    for name, size in SIZES.items():
        gguf.put(f"qwen3.{name}", U32, size)
    renamed("qwen3", "grovemoe")(gguf)
    target = bench.folder / "target.gguf"
    target.write_bytes(gguf.encode())
    text = manifest_for(target).replace("context = 128", "context = 64")
    bench.write("manifest.toml", text.replace("max_tokens = 48", "max_tokens = 8"))
    return compiled(bench)


def test_compiling_warns(unproven: Bench, snapshot_of: Callable[[Result], None]) -> None:
    snapshot_of(unproven("compile", "manifest.toml", "--check"))


@pytest.mark.parametrize(
    "command",
    [
        "run plan.lock --prompt one",
        "run plan.lock --prompts p.jsonl --out o.jsonl",
        "certify plan.lock --prompts p.jsonl",
    ],
)
def test_whatever_loads_it_fails_in_one_message(unproven: Bench, command: str) -> None:
    unproven.write("p.jsonl", '{"prompt": "one"}\n')
    done = unproven(*command.split())
    assert (done.code, done.stdout) == (4, b""), done.stderr
    assert done.stderr.count("error[") == 1
    assert "the engine's worker was stopped by SIGABRT while loading the model" in done.stderr
    assert "GGML_ASSERT(hparams.n_group_experts > 0" in done.stderr
    assert list(unproven.folder.glob("**/*.sigstore.json")) == []
