"""Medians, intervals and probabilities: exact, the same everywhere, and against known values."""

from __future__ import annotations

import statistics
from fractions import Fraction
from math import comb, exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.evidence.statistics import (
    bootstrap,
    decimal,
    geometric_mean,
    mcnemar,
    median,
    split_mix,
)

RATIOS = st.lists(
    st.fractions(min_value=Fraction(1, 50), max_value=50, max_denominator=1000), min_size=1
)


@given(st.lists(st.fractions(), min_size=1))
def test_the_median_is_pythons_own(values: list[Fraction]) -> None:
    assert median(values) == statistics.median(values)


@pytest.mark.parametrize(
    ("value", "places", "text"),
    [
        (Fraction(0), 3, "0"),
        (Fraction(1, 3), 3, "0.333"),
        (Fraction(1, 2), 0, "0"),
        (Fraction(3, 2), 0, "2"),
        (Fraction(-1, 8), 2, "-0.12"),
        (Fraction(123456, 10), 3, "12345.6"),
        (Fraction(1, 1000), 3, "0.001"),
        (Fraction(1, 2001), 3, "0"),
    ],
)
def test_decimals_are_rounded_half_to_even(value: Fraction, places: int, text: str) -> None:
    assert decimal(value, places) == text


@given(st.fractions(min_value=-1000, max_value=1000), st.integers(0, 6))
def test_a_decimal_is_as_near_as_its_places_allow(value: Fraction, places: int) -> None:
    assert abs(Fraction(decimal(value, places)) - value) <= Fraction(1, 2 * 10**places)


@given(RATIOS)
def test_the_geometric_mean_is_that_of_floats_to_four_places(ratios: list[Fraction]) -> None:
    expected = exp(sum(log(r) for r in ratios) / len(ratios))
    assert float(geometric_mean(ratios)) == pytest.approx(expected, abs=6e-5)


@given(RATIOS)
def test_an_interval_holds_its_mean_and_stays_within_the_ratios(ratios: list[Fraction]) -> None:
    found = bootstrap(ratios)
    low, mean, high = (Fraction(x) for x in (found.low, found.mean, found.high))
    rounding = Fraction(1, 10_000)
    assert low <= high
    assert min(ratios) - rounding <= low
    assert high <= max(ratios) + rounding
    assert min(ratios) - rounding <= mean <= max(ratios) + rounding


def test_equal_ratios_have_no_spread() -> None:
    found = bootstrap([Fraction(3, 2)] * 7)
    assert (found.low, found.mean, found.high) == ("1.5", "1.5", "1.5")


def test_an_interval_never_changes() -> None:
    """Fixed draws and decimal logarithms: these digits are part of the report's format."""
    found = bootstrap([Fraction(n, 10) for n in (8, 11, 12, 15, 21, 9, 13)])
    assert (found.mean, found.low, found.high) == ("1.2143", "0.983", "1.5287")


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """40 sets of 20 draws around 1: most intervals hold 1, and none is everything."""
    draws = [int(x) for x in split_mix(7, 40 * 20)]
    held = 0
    for start in range(0, len(draws), 20):
        ratios = [Fraction(2**63 + x // 2, 2**63 + 2**62) for x in draws[start : start + 20]]
        found = bootstrap(ratios)
        truth = exp(2 * log(2) - 1 - log(1.5))  # the mean logarithm of a uniform in [2/3, 4/3]
        held += float(found.low) <= truth <= float(found.high)
    assert 32 <= held < 40


def test_the_draws_are_split_mix() -> None:
    """The first draws of seed 1234567, as Vigna's reference implementation gives them."""
    assert [int(x) for x in split_mix(1234567, 3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@pytest.mark.parametrize(
    ("gains", "losses", "probability"),
    [
        (0, 0, Fraction(1)),
        (1, 0, Fraction(1)),
        (5, 3, Fraction(186, 256)),
        (6, 0, Fraction(1, 32)),
        (1, 3, Fraction(10, 16)),
        (2, 2, Fraction(1)),
    ],
)
def test_mcnemar(gains: int, losses: int, probability: Fraction) -> None:
    assert mcnemar(gains, losses) == mcnemar(losses, gains) == probability


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_counts_every_split_as_uneven(gains: int, losses: int) -> None:
    pairs, gap = gains + losses, abs(gains - losses)
    as_uneven = sum(comb(pairs, k) for k in range(pairs + 1) if abs(pairs - 2 * k) >= gap)
    assert mcnemar(gains, losses) == Fraction(as_uneven, 2**pairs)
