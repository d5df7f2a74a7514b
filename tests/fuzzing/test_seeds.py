"""The seeds are sound: changes of what nobody accepts would find nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzzing import drive
from tests.fuzzing.judge import refusal
from tests.fuzzing.seeds import SEEDS

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("name", SEEDS)
def test_power_and_the_engine_take_it(name: str, tmp_path: Path) -> None:
    seed = SEEDS[name]
    target, draft = tmp_path / "t.gguf", None if seed.draft is None else tmp_path / "d.gguf"
    target.write_bytes(seed.target().encode())
    if seed.draft is not None and draft is not None:
        draft.write_bytes(seed.draft().encode())
    assert refusal(seed.kind, target, draft) is None
    with drive.Engine() as engine:
        assert engine.outcome(seed.kind, target, draft) == ["takes", "close", ""]
