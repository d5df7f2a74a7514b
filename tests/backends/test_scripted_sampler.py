"""The scripted sampler, filter by filter, against distributions worked out by hand."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.backends.interface import SamplingConfig
from power.backends.scripted.sampler import ScriptedSampler

ROW = [math.log(p) for p in (0.4, 0.3, 0.2, 0.06, 0.04)]


def chosen(row: list[float], config: SamplingConfig, n: int = 2000) -> Counter[int]:
    sampler = ScriptedSampler(lambda _: row, config)
    return Counter(sampler.sample(0) for _ in range(n))


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_greedy_takes_the_best_and_the_lowest_of_equals(temperature: float) -> None:
    greedy = ScriptedSampler(lambda _: [1.0, 3.0, 3.0], SamplingConfig(temperature=temperature))
    assert greedy.sample(0) == 1
    assert greedy.state.draws == 0


@pytest.mark.parametrize(
    ("config", "support"),
    [
        (SamplingConfig(temperature=1.0), {0, 1, 2, 3, 4}),
        (SamplingConfig(temperature=1.0, top_k=2), {0, 1}),
        (SamplingConfig(temperature=1.0, top_k=0), {0, 1, 2, 3, 4}),
        (SamplingConfig(temperature=1.0, top_p=0.69), {0, 1}),
        (SamplingConfig(temperature=1.0, top_p=0.71), {0, 1, 2}),
        (SamplingConfig(temperature=1.0, top_p=0.0), {0}),
        (SamplingConfig(temperature=1.0, min_p=0.49), {0, 1, 2}),
        (SamplingConfig(temperature=1.0, min_p=0.51), {0, 1}),
        (SamplingConfig(temperature=1.0, min_p=0.0), {0, 1, 2, 3, 4}),
        # Entropy 1.35: surprises 0.92, 1.20, 1.61, 2.81, 3.22, so token 1 is the most typical.
        (SamplingConfig(temperature=1.0, typical_p=0.25), {1}),
        (SamplingConfig(temperature=1.0, typical_p=0.45), {1, 2}),
        (SamplingConfig(temperature=1.0, typical_p=1.0), {0, 1, 2, 3, 4}),
        # Each filter sees what the last one left: of 0.4, 0.3 the first is 0.57.
        (SamplingConfig(temperature=1.0, top_k=2, top_p=0.55), {0}),
    ],
)
def test_filters_leave_the_tokens_they_should(config: SamplingConfig, support: set[int]) -> None:
    assert set(chosen(ROW, config)) == support


def test_frequencies_follow_the_row() -> None:
    """Within five standard deviations; the sequence is fixed by the seed."""
    n = 4000
    counts = chosen(ROW, SamplingConfig(temperature=1.0, seed=11), n)
    for token, logit in enumerate(ROW):
        p = math.exp(logit)
        assert abs(counts[token] - n * p) < 5 * math.sqrt(n * p * (1 - p))


def test_a_low_temperature_sharpens() -> None:
    cold = chosen(ROW, SamplingConfig(temperature=0.2))
    assert cold[0] > 1500


def test_the_penalty_holds_for_the_last_n_tokens_only() -> None:
    row = [2.0, 1.5, 1.0, -1.0]
    config = SamplingConfig(repeat_penalty=3.0, repeat_last_n=2)
    sampler = ScriptedSampler(lambda _: row, config)
    # 2.0/3 and 1.5/3 fall below 1.0, then token 0 leaves the window of two.
    assert [sampler.sample(0) for _ in range(4)] == [0, 1, 2, 0]
    assert sampler.state.window == (2, 0)


def test_a_penalty_makes_a_negative_logit_more_negative() -> None:
    sampler = ScriptedSampler(lambda _: [-1.0, -1.5], SamplingConfig(repeat_penalty=2.0))
    assert [sampler.sample(0), sampler.sample(0)] == [0, 1]


@given(st.integers(0, 2**32), st.integers(0, 20), st.integers(1, 20))
def test_restoring_repeats_the_same_draws(seed: int, before: int, after: int) -> None:
    config = SamplingConfig(temperature=1.0, repeat_penalty=1.2, repeat_last_n=3, seed=seed)
    sampler = ScriptedSampler(lambda _: ROW, config)
    for _ in range(before):
        sampler.sample(0)
    mark = sampler.checkpoint()
    first = [sampler.sample(0) for _ in range(after)]
    assert sampler.state.draws == before + after
    sampler.restore(mark)
    assert [sampler.sample(0) for _ in range(after)] == first
