"""`power doctor` speaks of the library that is loaded, not of the one that was installed."""

import os
import shutil

import pytest

from power.backends.llamacpp.installation import library_path
from power.backends.llamacpp.symbols import SYMBOLS
from power.plan.capabilities import STRATEGIES
from tests.cli.conftest import Bench

pytestmark = pytest.mark.engine


@pytest.fixture
def without_selector(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with another copy of the engine package, which lacks one function."""
    folder = tmp_path_factory.mktemp("site")
    installed = library_path().parent.parent
    shutil.copytree(installed, folder / "llama_cpp", ignore=shutil.ignore_patterns("*.pyc"))
    symbol = SYMBOLS["model_dflash_selector_top_k"].encode()
    for library in (folder / "llama_cpp" / "lib").glob("libllama.so*"):
        data = library.read_bytes()
        assert symbol in data
        library.write_bytes(data.replace(symbol, symbol.replace(b"top_k", b"bot_k")))
    places = [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {"PYTHONPATH": os.pathsep.join(place for place in places if place)}


def test_every_strategy_has_a_line(bench: Bench) -> None:
    run = bench("doctor")
    assert run.code == 0
    lines = [line.split() for line in run.stdout.decode().splitlines()]
    assert [line[1:] for line in lines if line[0] == "strategy"] == [
        [strategy, "yes"] for strategy in STRATEGIES
    ]


def test_a_bad_time_limit_is_no_word_about_the_engine(bench: Bench) -> None:
    for limit in ("soon", "0", "nan"):
        run = bench("doctor", env={"POWER_WORKER_TIMEOUT": limit})
        assert run.code == 2
        assert "error[P516]" in run.stderr


def test_settings_without_effect_have_a_line(bench: Bench) -> None:
    engine = bench("doctor", "--format", "json").json["engine"]
    reason = "llama.cpp makes its CUDA streams without a priority"
    assert engine["without_effect"]["host.cuda_high_priority"] == reason
    text = bench("doctor").stdout.decode()
    for key, why in engine["without_effect"].items():
        assert f"\nsetting         {key}: no effect, {why}\n" in text
    for remark in engine["remarks"]:
        assert f"\nnote            {remark}\n" in text


def test_a_loaded_library_that_lacks_a_function_loses_the_strategy(
    bench: Bench, without_selector: dict[str, str]
) -> None:
    run = bench("doctor", env=without_selector)
    reason = "this build of llama.cpp does not export `llama_model_dflash_selector_top_k`"
    assert f"dflash2        no: {reason}\n" in run.stdout.decode()
    answer = bench("doctor", "--format", "json", env=without_selector).json
    told = {line["strategy"]: line for line in answer["strategies"]}
    assert told["dflash2"] == {"strategy": "dflash2", "executes": False, "reason": reason}
    assert [s for s, line in told.items() if not line["executes"]] == ["dflash2"]
