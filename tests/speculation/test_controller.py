"""The two controllers: one that never moves, one that moves at most twice."""

import pytest

from power.backends.none import NoProposer
from power.speculation import adaptive as module
from power.speculation.adaptive import AdaptiveController
from power.speculation.controller import Controller, FixedController, make_controller
from power.speculation.cost import CostController
from power.speculation.outcome import ControllerKind, Costs, Settings


def settings(k: int, s: int, controller: ControllerKind = "adaptive") -> Settings:
    return Settings(
        draft_max=k,
        draft_min=0,
        window=min(k, s),
        snapshots=s,
        context=100,
        controller=controller,
        costs=Costs((1_000_000,) * (k + 1)) if controller == "cost" else None,
    )


def made(kind: ControllerKind) -> Controller:
    return make_controller(settings(7, 6, kind), NoProposer())


def feed(controller: Controller, accepted: list[int], start: int = 1) -> None:
    """Rounds that each drafted the whole width; the controller says how wide that is."""
    for number, count in enumerate(accepted, start):
        controller.observe(number, max(1, controller.ask()), count, ())


def test_constants() -> None:
    assert (module.WINDOW_ROUNDS, module.MIN_ACCEPTED_PER_ROUND) == (12, 0.75)
    assert module.MIN_EMPTY_ROUNDS == 6


def test_the_settings_choose_the_controller() -> None:
    assert isinstance(made("fixed"), FixedController)
    assert isinstance(made("adaptive"), AdaptiveController)
    assert isinstance(made("cost"), CostController)


def test_a_fixed_width_ignores_what_happens() -> None:
    fixed = made("fixed")
    feed(fixed, [0] * 50)
    assert (fixed.ask(), fixed.width([1]), fixed.widened_round, fixed.circuit_round) == (
        7,
        7,
        None,
        None,
    )


@pytest.mark.parametrize(("k", "s", "narrow"), [(7, 6, 6), (10, 6, 6), (6, 6, 6), (3, 7, 3)])
def test_it_starts_at_the_smaller_of_k_and_s(k: int, s: int, narrow: int) -> None:
    assert AdaptiveController(settings(k, s)).ask() == narrow


def test_a_fully_accepted_probe_opens_k() -> None:
    adaptive = AdaptiveController(settings(10, 6))
    adaptive.observe(1, 6, 6, ())
    assert (adaptive.ask(), adaptive.widened_round) == (10, 1)


def test_a_partial_probe_keeps_k_closed_for_good() -> None:
    adaptive = AdaptiveController(settings(10, 6))
    adaptive.observe(1, 6, 5, ())
    feed(adaptive, [6] * 30, start=2)
    assert (adaptive.ask(), adaptive.widened_round) == (6, None)


def test_a_round_that_drafted_nothing_is_no_probe() -> None:
    adaptive = AdaptiveController(settings(10, 6))
    adaptive.observe(1, 0, 0, ())
    assert adaptive.ask() == 6
    adaptive.observe(2, 6, 6, ())
    assert (adaptive.ask(), adaptive.widened_round) == (10, 2)


def test_a_probe_cut_short_counts_by_what_it_drafted() -> None:
    adaptive = AdaptiveController(settings(10, 6))
    adaptive.observe(1, 2, 2, ())
    assert (adaptive.ask(), adaptive.widened_round) == (10, 1)


def test_nothing_is_recorded_as_widening_where_there_is_nothing_to_widen() -> None:
    adaptive = AdaptiveController(settings(6, 6))
    adaptive.observe(1, 6, 6, ())
    assert (adaptive.ask(), adaptive.widened_round) == (6, None)


def test_a_healthy_partial_round_keeps_the_width() -> None:
    adaptive = AdaptiveController(settings(10, 6))
    feed(adaptive, [6, *[1, 0, 3, 2] * 10])
    assert (adaptive.ask(), adaptive.circuit_round) == (10, None)


def test_one_token_every_third_round_opens_the_circuit_at_round_12() -> None:
    adaptive = AdaptiveController(settings(7, 7))
    feed(adaptive, [1, 0, 0] * 4)
    assert (adaptive.ask(), adaptive.circuit_round) == (0, 12)


def test_the_circuit_needs_a_full_window() -> None:
    adaptive = AdaptiveController(settings(7, 7))
    feed(adaptive, [0] * 11)
    assert (adaptive.ask(), adaptive.circuit_round) == (7, None)


@pytest.mark.parametrize(
    ("accepted", "opens"),
    [
        ([0] * 6 + [1] * 3 + [2] * 3, False),  # 9 of 12: exactly 0.75
        ([0] * 6 + [1] * 4 + [2] * 2, True),  # 8 of 12, 6 of them empty
        ([0] * 5 + [1] * 7, False),  # 7 of 12, but only 5 empty
        ([0] * 11 + [8], True),
        ([0] * 11 + [9], False),
    ],
)
def test_both_conditions_of_the_circuit(accepted: list[int], opens: bool) -> None:
    adaptive = AdaptiveController(settings(9, 9))
    feed(adaptive, accepted)
    assert (adaptive.circuit_round == 12) is opens


def test_the_window_slides() -> None:
    """A good start is forgotten after twelve more rounds, not kept as credit."""
    adaptive = AdaptiveController(settings(7, 7))
    feed(adaptive, [7] * 20 + [0] * 12)
    assert adaptive.circuit_round == 31  # 20 + 11: one full round of 7 left is below 9


def test_rounds_that_drafted_nothing_do_not_count() -> None:
    adaptive = AdaptiveController(settings(7, 7))
    for number in range(1, 100):
        adaptive.observe(number, 0, 0, ())
    feed(adaptive, [0] * 11, start=100)
    assert adaptive.ask() == 7
    adaptive.observe(111, 7, 0, ())
    assert (adaptive.ask(), adaptive.circuit_round) == (0, 111)


def test_the_circuit_is_one_way() -> None:
    adaptive = AdaptiveController(settings(10, 6))
    feed(adaptive, [6] + [0] * 11)
    assert (adaptive.ask(), adaptive.circuit_round) == (0, 12)
    feed(adaptive, [9] * 40, start=13)
    assert (adaptive.ask(), adaptive.circuit_round) == (0, 12)
