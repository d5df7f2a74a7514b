"""The sampler chain's state: saved, restored, freed, and refused where it cannot go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from power.backends.errors import EngineError
from power.backends.interface import SamplingConfig
from power.backends.llamacpp.sampler import DeviceSampler, greedy
from power.diagnostics import PowerError

STATES = {
    "random": SamplingConfig(temperature=20.0, seed=5),
    "penalty": SamplingConfig(
        temperature=10.0, repeat_penalty=3.0, repeat_last_n=8, top_k=5, seed=5
    ),
    "grammar": SamplingConfig(temperature=20.0, grammar='root ::= "abc" root | "x" root', seed=5),
}


def session_at_a_row(engine: Any, sampling: SamplingConfig) -> Any:
    session = engine.session(sampling, control=True)
    session.target.prefill([1, 10, 20])
    session.target.evaluate([30])
    return session


@pytest.mark.complaint(n=14)
@pytest.mark.parametrize("name", STATES)
def test_a_checkpoint_holds_the_whole_state(lab: Any, name: str) -> None:
    """The same draws follow it, however often it is returned to; without it they differ."""
    sampler = session_at_a_row(lab.open(), STATES[name]).sampler
    for _ in range(4):
        sampler.sample(0)
    checkpoint = sampler.checkpoint()
    first = [sampler.sample(0) for _ in range(12)]
    beyond = [sampler.sample(0) for _ in range(12)]
    for _ in range(3):
        sampler.restore(checkpoint)
        assert [sampler.sample(0) for _ in range(12)] == first
    assert first != beyond


def test_only_the_last_checkpoint_can_be_returned_to(lab: Any) -> None:
    sampler = session_at_a_row(lab.open(), STATES["random"]).sampler
    old = sampler.checkpoint()
    sampler.checkpoint()
    with pytest.raises(ValueError, match="checkpoint"):
        sampler.restore(old)


def test_closing_twice_is_harmless(lab: Any) -> None:
    engine = lab.open()
    sampler = session_at_a_row(engine, STATES["grammar"]).sampler
    sampler.checkpoint()
    sampler.close()
    sampler.close()
    engine.close()
    engine.close()


@pytest.mark.parametrize(
    "grammar",
    [
        "",
        "root ::= other",
        'start ::= "a"',
        "root ::= root",
        'root ::= "a',
        "root ::= [a",
        'root ::= "a"{2,1}',
        'root ::= "a"\0',
        "root ::= ((((",
        'root ::= "a"{3000}',
        'root ::= "a"{0,3000}',
        'root ::= "a"{' + "9" * 5000 + "}",
        "root ::= " + "(" * 65 + '"a"' + ")" * 65,
        'root ::= "a" # ' + "x" * 70_000,
    ],
)
def test_a_grammar_that_does_not_parse_is_a_diagnostic(lab: Any, grammar: str) -> None:
    engine = lab.open()
    with pytest.raises(PowerError) as caught:
        engine.session(SamplingConfig(grammar=grammar), control=True)
    assert caught.value.diagnostics[0].code == "P526"
    assert lab.run(engine, [1, 10], max_tokens=3).error is None


@pytest.mark.parametrize(
    "grammar",
    ['root ::= "{2,1}(" [{3,2}(] # {5,4}', 'root ::= "a"{2,3}', 'root ::= "a"{2,}', "root ::= "],
)
def test_what_looks_like_a_bad_grammar_and_is_none(lab: Any, grammar: str) -> None:
    assert lab.open().session(SamplingConfig(grammar=grammar), control=True) is not None


def test_a_grammar_that_is_over_admits_the_end_and_then_nothing(lab: Any) -> None:
    engine = lab.open()
    sampler = session_at_a_row(engine, SamplingConfig(grammar='root ::= "ab"')).sampler
    assert engine.vocabulary.piece(sampler.sample(0)) == b"a"
    assert engine.vocabulary.piece(sampler.sample(0)) == b"b"
    assert engine.vocabulary.is_end(sampler.sample(0))


@pytest.mark.parametrize("seed", [-1, 0xFFFF_FFFF, 1 << 40])
def test_a_seed_outside_the_engines_range_is_refused(lab: Any, seed: int) -> None:
    engine = lab.open()
    with pytest.raises(PowerError) as caught:
        engine.session(SamplingConfig(temperature=1.0, seed=seed), control=True)
    assert caught.value.diagnostics[0].code == "P527"


@pytest.mark.parametrize(
    "row",
    [[1.0, np.nan, 2.0], [np.nan] * 3, [1.0, np.inf, 2.0], [-np.inf] * 3],
    ids=["nan", "all-nan", "inf", "all-minus-inf"],
)
def test_a_row_without_a_finite_maximum_is_refused(row: list[float]) -> None:
    with pytest.raises(EngineError) as caught:
        greedy(np.array(row, np.float32))
    assert caught.value.kind == "logits"


def test_of_equal_logits_the_first_token_wins() -> None:
    assert greedy(np.array([0.0, 3.0, -np.inf, 3.0], np.float32)) == 1


class TestOnTheDevice:
    """`graph.backend_sampling`: the greedy choice in the engine's graph."""

    @pytest.mark.parametrize("target", ["target", "qwen35"])
    @pytest.mark.parametrize("rows", [None, 8])
    def test_it_chooses_the_same(self, lab: Any, target: str, rows: int | None) -> None:
        shape = {"target": target, "rows": rows, "batch": 9, "snapshots": 7}
        here = lab.open("prompt-lookup", **shape)
        there = lab.open("prompt-lookup", backend_sampling=True, **shape)
        prompt = [1, *range(10, 30), *range(10, 20)]
        expected = lab.run(here, prompt, max_tokens=24)
        found = lab.run(there, prompt, max_tokens=24)
        assert found.ids == expected.ids
        assert found.counters.drafted == expected.counters.drafted > 0

    def test_the_rows_can_still_be_read(self, lab: Any) -> None:
        here = session_at_a_row(lab.open(), SamplingConfig())
        there = session_at_a_row(lab.open(backend_sampling=True), SamplingConfig())
        assert np.array_equal(here.target.row(0), there.target.row(0))

    def test_requests_of_both_kinds_take_turns(self, lab: Any) -> None:
        engine = lab.open(backend_sampling=True)
        greedily = session_at_a_row(engine, SamplingConfig()).sampler
        assert type(greedily) is DeviceSampler
        first = greedily.sample(0)
        assert session_at_a_row(engine, STATES["random"]).sampler.sample(0) >= 0
        assert session_at_a_row(engine, SamplingConfig()).sampler.sample(0) == first

    @pytest.mark.parametrize("token", [-1, 1])
    def test_what_is_no_choice_is_refused(self, token: int) -> None:
        class Target:
            def chosen(self, _row: int) -> int:
                return token

            def row(self, _row: int) -> Any:
                return np.array([0.0, np.nan, 1.0], np.float32)

        with pytest.raises(EngineError, match=f"the device chose token {token}"):
            DeviceSampler(Target()).sample(0)  # type: ignore[arg-type]
