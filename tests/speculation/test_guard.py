"""The replay guard: strictly longer, once a request, down to S."""

import pytest

from power.speculation.guard import ReplayGuard
from power.speculation.outcome import Settings


def guard(k: int, s: int) -> ReplayGuard:
    return ReplayGuard(
        Settings(draft_max=k, draft_min=0, window=min(k, s), snapshots=s, context=100)
    )


def test_six_of_seven_rejected_is_within_a_window_of_six() -> None:
    k7s6 = guard(7, 6)
    assert not k7s6.exceeds(6)
    k7s6.observe(1, 6)
    assert (k7s6.fired_round, k7s6.ceiling) == (None, 7)


def test_seven_rejected_fires_and_clamps_to_six() -> None:
    k7s6 = guard(7, 6)
    assert k7s6.exceeds(7)
    k7s6.observe(3, 7)
    assert (k7s6.fired_round, k7s6.ceiling) == (3, 6)


@pytest.mark.complaint(n=7)
def test_it_fires_at_most_once() -> None:
    """Even if an engine or a mistake shows it a second suffix that is too long."""
    k7s6 = guard(7, 6)
    k7s6.observe(3, 7)
    k7s6.observe(9, 7)
    assert (k7s6.fired_round, k7s6.ceiling) == (3, 6)


@pytest.mark.parametrize(("k", "s"), [(1, 1), (7, 7), (6, 7), (3, 64)])
def test_it_never_fires_and_never_widens_when_k_is_at_most_s(k: int, s: int) -> None:
    narrow = guard(k, s)
    for round_number in range(1, 20):
        narrow.observe(round_number, k)
    assert (narrow.fired_round, narrow.ceiling) == (None, k)


def test_a_pure_kv_cache_trims_all_of_k_whatever_s_says() -> None:
    pure = ReplayGuard(Settings(draft_max=7, draft_min=0, window=7, snapshots=1, context=100))
    pure.observe(1, 7)
    assert (pure.fired_round, pure.ceiling) == (None, 7)
