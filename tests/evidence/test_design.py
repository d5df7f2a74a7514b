"""The order of samples: each once, arms rotated, and what is done left out."""

from __future__ import annotations

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


def test_a_session_without_a_prompt_is_no_session() -> None:
    done = {Cell(1, 0, 0), Cell(1, 0, 1)}
    assert list(Design(1, 2, 2).sessions(done)) == [Session(2, 0, (0, 1))]
