"""What lasts and what must not: memory over many requests, and everything after the last one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from power.backends.llamacpp.library import native
from power.runner.runner import Runner
from power.runner.types import Request
from tests.engine.conftest import Lab
from tests.engine.test_worker import PROMPT, Models, llama, opened
from tests.runner.conftest import MakePlan
from tests.runner.conftest import make_plan as make_plan  # noqa: PLC0414 - a fixture

REQUESTS = 200
WARM = 20  # the engine's and Python's own pools are full by then
GROWTH = 4 << 20


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["prompt-lookup", "draft-model"])
def test_memory_is_flat_over_200_requests(
    models: Models, make_plan: MakePlan, strategy: str
) -> None:
    draft = "draft" if strategy == "draft-model" else None
    before = psutil.Process().num_fds()
    others = psutil.Process().children(recursive=True)
    with opened(models, "target", draft) as artifacts:
        with Runner(llama(make_plan, strategy), artifacts) as runner:
            assert runner._worker is not None
            worker = psutil.Process(runner._worker.pid)
            seen: list[tuple[int, int, int]] = []
            for number in range(REQUESTS):
                record = runner.generate(Request(PROMPT, max_tokens=8, seed=number))
                assert len(record.ids) > 0
                if number in {WARM, REQUESTS - 1}:
                    memory = worker.memory_info().rss
                    seen.append((memory, worker.num_fds(), worker.num_threads()))
        assert not worker.is_running()
    (early, *things), (late, *later) = seen
    assert late - early < GROWTH
    assert things == later
    assert psutil.Process().num_fds() == before
    assert psutil.Process().children(recursive=True) == others


def order_of_freeing(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is freed from here on, in order, by the address of each thing."""
    freed: list[tuple[str, int]] = []
    lib: Any = native()
    for name in ("llama_free", "llama_model_free", "llama_sampler_free"):
        real = getattr(lib, name)

        def free(handle: Any, name: str = name, real: Any = real) -> None:
            freed.append((name, int(getattr(handle, "value", handle) or 0)))
            real(handle)

        monkeypatch.setattr(lib, name, free)
    return freed


@pytest.mark.parametrize(
    ("strategy", "target", "draft", "contexts", "models_"),
    [
        ("off", "target", "draft", 1, 1),
        ("draft-model", "target", "draft", 2, 2),
        ("dflash", "walk", "dflash", 2, 2),
        ("eagle3", "walk", "eagle3", 2, 2),
        ("mtp", "qwen35", "draft", 2, 1),
    ],
)
def test_contexts_are_freed_before_models_and_each_once(  # noqa: PLR0917 - one case
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    target: str,
    draft: str,
    contexts: int,
    models_: int,
) -> None:
    """A target that goes before its draft, or anything freed twice, ends the process."""
    engine = lab.open(strategy, target=target, draft=draft)
    lab.run(engine, list(range(20, 30)), max_tokens=4)
    freed = order_of_freeing(monkeypatch)
    engine.close()
    engine.close()
    kinds = [name for name, _ in freed]
    assert len(set(freed)) == len(freed)
    assert (kinds.count("llama_free"), kinds.count("llama_model_free")) == (contexts, models_)
    last_context = max(at for at, name in enumerate(kinds) if name == "llama_free")
    if strategy != "draft-model":  # whose draft shares nothing with the target
        assert last_context < kinds.index("llama_model_free")


def test_a_failed_load_leaves_no_descriptor(lab: Lab, tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    data = bytearray(lab.models["target"][0].read_bytes())
    bad.write_bytes(data[: len(data) // 2])
    lab = Lab({"target": (bad,), "draft": lab.models["draft"]})
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names
    for _ in range(5):
        with pytest.raises(Exception, match=r".+"):
            lab.open("off")
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - names
