"""A model under the name of every other architecture: refused in words, or run to its end.

Of most architectures only the engine knows the tensors (P308), so that its loaders
and graphs see such a file first. What they assert of it has to be known before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from power.artifact.architectures import DECODERS
from tests.artifact import build
from tests.artifact.build import Gguf
from tests.artifact.test_engine_rules import renamed
from tests.fuzzing.drive import Engine
from tests.fuzzing.judge import misspoken, refusal

pytestmark = [pytest.mark.engine, pytest.mark.slow]

MODELS: dict[str, Callable[[], Gguf]] = {
    "llama": build.llama,
    "qwen3": build.qwen,
    "gemma3": build.gemma3,
    "qwen35": build.qwen35,
}


@pytest.mark.parametrize("model", MODELS)
def test_no_name_kills_the_engine(model: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    refused, died = 0, []
    with Engine() as engine:
        for name in sorted(DECODERS - {model}):
            gguf = MODELS[model]()
            renamed(model, name)(gguf)
            path.write_bytes(gguf.encode())
            error = refusal("off", path, None)
            if error is not None:
                refused += 1
                assert misspoken(error) == []
                continue
            how, stage, words = engine.outcome("off", path, None)
            if how == "dies":
                died.append(f"{name}: {stage}: {words}")
    assert died == []
    assert refused > 0
