"""Changed models: refused in words or run to their end, never anything else.

A bounded share of what `tools/fuzz_gguf.py` does for hours.
"""

from __future__ import annotations

import os
import tempfile
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzzing.drive import Engine
from tests.fuzzing.judge import misspoken, refusal
from tests.fuzzing.seeds import SEEDS
from tools.fuzz_gguf import BUGS, made, one

MEMORY = 24 << 20
"""Bytes of Python memory that judging any of these small pairs may cost."""
PAIRS = 200


@settings(max_examples=300)
@given(name=st.sampled_from(sorted(SEEDS)), number=st.integers(0, 2**32))
def test_every_contract_judges_any_change(name: str, number: int) -> None:
    seed = SEEDS[name]
    with tempfile.TemporaryDirectory() as folder:
        target, draft, said = made(Random(number), seed, Path(folder))
        descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count
        tracemalloc.start()
        error = refusal(seed.kind, target, draft)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(os.listdir("/proc/self/fd")) == descriptors, said  # noqa: PTH208 - a count
    assert peak < MEMORY, said
    assert error is None or misspoken(error) == [], said


@pytest.mark.engine
@pytest.mark.slow
def test_the_engine_survives_what_is_accepted(tmp_path: Path) -> None:
    names = sorted(SEEDS)
    ends: dict[str, int] = {}
    with Engine() as engine:
        for number in range(PAIRS):
            name = names[number % len(names)]
            how, case = one(Random(f"ci/{number}"), name, tmp_path, engine)
            assert how not in BUGS, case
            ends[how] = ends.get(how, 0) + 1
    assert ends["takes"] > PAIRS // 20  # or nothing was tried
