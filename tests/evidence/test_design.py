"""The order of samples: each once, arms rotated, and what is done left out."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from power.evidence.design import Cell, Design, Session

DESIGNS = st.builds(Design, st.integers(1, 5), st.integers(1, 6), st.integers(1, 5))


def test_two_arms_alternate() -> None:
    order = [(s.round, s.arm) for s in Design(arms=2, prompts=1, rounds=3).sessions()]
    assert order == [(1, 0), (1, 1), (2, 1), (2, 0), (3, 0), (3, 1)]


def test_three_arms_rotate() -> None:
    order = [s.arm for s in Design(arms=3, prompts=1, rounds=3).sessions()]
    assert order == [0, 1, 2, 1, 2, 0, 2, 0, 1]


@given(DESIGNS)
def test_every_sample_is_planned_once(design: Design) -> None:
    cells = list(design.cells())
    assert len(cells) == len(set(cells)) == design.size


@given(DESIGNS, st.data())
def test_what_is_done_is_left_out_and_the_rest_keeps_its_order(
    design: Design, data: st.DataObject
) -> None:
    cells = list(design.cells())
    done = data.draw(st.sets(st.sampled_from(cells)))
    left = [cell for session in design.sessions(done) for cell in session.cells()]
    assert left == [cell for cell in cells if cell not in done]


@given(DESIGNS, st.randoms(use_true_random=False))
def test_arms_may_take_turns_at_any_grain(design: Design, choice: random.Random) -> None:
    """Whoever begins the round; no prompt of an arm before its turn, and none twice."""
    mixed: list[Cell] = []
    for number in range(1, design.rounds + 1):
        first, *others = [list(s.cells()) for s in design.sessions() if s.round == number]
        mixed.append(first.pop(0))
        left = [first, *others]
        while any(left):
            mixed.append(choice.choice([cells for cells in left if cells]).pop(0))
    assert design.allows(design.cells())
    assert design.allows(mixed)
    at = choice.randrange(len(mixed))
    assert not design.allows([*mixed[:at], mixed[at], *mixed[at:]])
    same = [i for i, cell in enumerate(mixed) if (cell.round, cell.arm) == (1, 0)]
    one, other = choice.choice(same), choice.choice(same)
    mixed[one], mixed[other] = mixed[other], mixed[one]
    assert design.allows(mixed) == (one == other)


def test_a_round_is_begun_by_the_arm_whose_turn_it_is() -> None:
    first, second = Cell(1, 0, 0), Cell(1, 1, 0)
    assert Design(2, 1, 1).allows([first, second])
    assert not Design(2, 1, 1).allows([second, first])
    assert not Design(2, 1, 2).allows([first, second, Cell(2, 0, 0), Cell(2, 1, 0)])


def test_a_session_without_a_prompt_is_no_session() -> None:
    done = {Cell(1, 0, 0), Cell(1, 0, 1)}
    assert list(Design(1, 2, 2).sessions(done)) == [Session(2, 0, (0, 1))]
