"""Statistics that come out the same on every machine: integers and fractions in, decimals out.

Nothing here computes in binary floating point. Logarithms are of Python's decimal
arithmetic, which is rounded correctly everywhere, and random draws are SplitMix64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from math import comb

import numpy as np

RESAMPLES = 10_000
SEED = 20_260_823
COVERAGE = Fraction(95, 100)

_CONTEXT = Context(prec=40)
_UNIT = Decimal(10) ** -12  # of a logarithm, as the integers that are resampled
_PLACES = 4
_SHOWN = Decimal(10) ** -_PLACES
_KNOWN = Decimal(10) ** -9  # what is left of the exponential of a rounded logarithm


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio over prompts: its geometric mean, and the bounds of its bootstrap interval."""

    mean: str
    low: str
    high: str


def median(values: Sequence[Fraction]) -> Fraction:
    """The middle value; of an even number, the mean of the two in the middle."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def decimal(value: Fraction, places: int = 3) -> str:
    """`value` with at most `places` digits behind the point, rounded half to even: `12.5`, `0`."""
    scaled = round(value * 10**places)
    text = f"{abs(scaled):0{places + 1}d}"
    whole, part = text[: len(text) - places], text[len(text) - places :].rstrip("0")
    sign = "-" if scaled < 0 else ""
    return f"{sign}{whole}.{part}" if part else f"{sign}{whole}"


def geometric_mean(ratios: Sequence[Fraction]) -> str:
    """The geometric mean of positive ratios, to four places."""
    return _mean([_log(ratio) for ratio in ratios])


def bootstrap(ratios: Sequence[Fraction]) -> Interval:
    """The geometric mean of paired ratios, one a prompt, and its 95% percentile interval.

    The prompts are resampled, not the repeats: what is asked is how the ratio
    would come out on other prompts of the kind. The draws are fixed (SEED), so the
    same ratios give the same interval. Source: Efron, Tibshirani, An Introduction
    to the Bootstrap, 13.3. The bounds are rounded outwards.
    """
    logs = [_log(ratio) for ratio in ratios]
    sums = sorted(_resampled(logs))
    tail = int(RESAMPLES * (1 - COVERAGE) / 2)
    low, high = sums[tail], sums[RESAMPLES - 1 - tail]
    count = len(logs)
    return Interval(_mean(logs), _exp(low, count, ROUND_FLOOR), _exp(high, count, ROUND_CEILING))


def mcnemar(gains: int, losses: int) -> Fraction:
    """The exact two-sided probability of a split at least as uneven, were both as likely.

    gains, losses: tasks that only the candidate, and only the base, got right.
    Source: McNemar 1947, in its binomial form.
    """
    pairs = gains + losses
    tail = sum(comb(pairs, k) for k in range(min(gains, losses) + 1))
    return min(Fraction(1), Fraction(2 * tail, 2**pairs))


def _log(ratio: Fraction) -> int:
    """The natural logarithm in units of 10^-12."""
    quotient = _CONTEXT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    return int((_CONTEXT.ln(quotient) / _UNIT).to_integral_value())


def _mean(logs: Sequence[int]) -> str:
    return _exp(sum(logs), len(logs))


def _exp(total: int, count: int, rounding: str = ROUND_HALF_EVEN) -> str:
    mean = _CONTEXT.divide(Decimal(total) * _UNIT, Decimal(count))
    exact = _CONTEXT.exp(mean).quantize(_KNOWN)
    return decimal(Fraction(exact.quantize(_SHOWN, rounding)), _PLACES)


def _resampled(logs: Sequence[int]) -> list[int]:
    """The sum of each resample."""
    values = np.array(logs, dtype=np.int64)
    count = len(values)
    draws = split_mix(SEED, RESAMPLES * count) >> np.uint64(32)
    picked = (draws * np.uint64(count)) >> np.uint64(
        32
    )  # as good as uniform for any set of prompts
    sums: list[int] = values[picked.astype(np.int64)].reshape(RESAMPLES, count).sum(axis=1).tolist()
    return sums


def split_mix(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The first `count` draws of SplitMix64 (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        steps = np.arange(1, count + 1, dtype=np.uint64)
        z = np.uint64(seed) + steps * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
