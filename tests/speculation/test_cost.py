"""The cost controller: it takes the width that pays, and cannot lose more than its bound."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power.speculation.acceptance import LONGEST_RUN, Acceptance, Rehearsal
from power.speculation.cost import ALLOWANCE_PERCENT, LOSS_PERCENT, CostController
from power.speculation.outcome import Costs, Settings

UNIT = 1_000_000
STEEP = tuple(round(v * UNIT) for v in (1, 1.84, 2.37, 2.85, 3.44, 3.88, 4.41, 4.62))
STEPPED = tuple(round(v * UNIT) for v in (1, 1.89, 2.41, 2.40, 3.76, 3.99, 4.31, 3.52))
GENTLE = tuple(UNIT + k * UNIT // 4 for k in range(8))
FLAT = tuple(UNIT + k * UNIT // 33 for k in range(8))


def made(
    rows: Sequence[int] = STEEP,
    *,
    grade: int | None = None,
    behind: Late | None = None,
    draft_min: int = 0,
    window: int | None = None,
    **costs: int,
) -> CostController:
    """The controller of one request; `costs`: those beside `rows`."""
    k = len(rows) - 1
    plan = Settings(
        draft_max=k,
        draft_min=draft_min,
        window=k if window is None else window,
        snapshots=k,
        context=10**6,
        controller="cost",
        costs=Costs(tuple(rows), **costs),
    )
    return CostController(plan, None if grade is None else Sure(grade), behind)


@dataclass
class Sure:
    """A proposer's word on how sure it is."""

    run: int

    def grade(self) -> int:
        return self.run


@dataclass
class Late:
    """A proposer with tokens to take in."""

    tokens: int

    def backlog(self) -> int:
        return self.tokens


@dataclass
class World:
    """Rounds against a text that counts up; `right(at)` says how far a proposal there is right.

    Keeps the modelled cost of what was done, and the cost of target-only.
    """

    controller: CostController
    costs: Costs
    right: Callable[[int], int]
    length: Callable[[int], int] = lambda asked: asked
    at: int = 0
    cost: int = 0
    rounds: int = 0
    before: int = 0
    behind: Late | None = None

    def round(self) -> int:
        """One round; the width that was verified."""
        asked = self.controller.ask()
        right = self.right(self.at)
        if self.behind is not None and asked:
            self.cost += self.costs.prefill * self.behind.tokens
            self.behind.tokens = 0
        proposal = [self.at + i if i < right else -1 for i in range(min(asked, self.length(asked)))]
        width = self.controller.width(proposal)
        assert 0 <= width <= len(proposal)
        accepted = min(right, width)
        emitted = range(self.at, self.at + accepted + 1)
        self.rounds += 1
        self.controller.observe(self.rounds, width, accepted, emitted)
        self.at += accepted + 1
        if self.behind is not None and not asked:
            self.behind.tokens += accepted + 1
        self.cost += self.costs.rows[width] + self.costs.turn(self.before, width)
        self.cost += self.costs.draft(min(asked, len(proposal) + 1))
        self.before = width
        return width

    def until(self, tokens: int) -> list[int]:
        widths = []
        while self.at < tokens:
            widths.append(self.round())
        return widths


def world(
    right: Callable[[int], int],
    rows: Sequence[int] = STEEP,
    *,
    grade: int | None = None,
    late: int | None = None,
    **costs: int,
) -> World:
    behind = None if late is None else Late(late)
    controller = made(rows, grade=grade, behind=behind, **costs)
    return World(controller, Costs(tuple(rows), **costs), right, behind=behind)


def chances(p: float, seed: int) -> Callable[[int], int]:
    """Every token is right with chance p, whatever came before."""
    rng = random.Random(seed)

    def right(_at: int) -> int:
        count = 0
        while count < 64 and rng.random() < p:
            count += 1
        return count

    return right


def best_fixed(p: float, costs: Costs) -> float:
    """Cost of a token at the best fixed width, 0 included."""
    return min(
        (costs.rows[k] + costs.draft(k)) / sum(p**i for i in range(k + 1))
        for k in range(len(costs.rows))
    )


# --- the bound ----------------------------------------------------------------

cost = st.integers(UNIT // 2, 6 * UNIT)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any curve, however odd, any draft cost, and somebody who answers as badly as can be."""
    k = draw(st.integers(0, 8))
    rows = [UNIT, *(draw(cost) for _ in range(k))]
    call, step = draw(st.sampled_from([(0, 0), (0, UNIT // 10), (UNIT // 5, 0), (7, UNIT)]))
    rebuild = draw(st.sampled_from([0, 0, UNIT // 12, UNIT]))
    # A graded proposer may say one thing and do another.
    grade = draw(st.one_of(st.none(), st.integers(0, 40)))
    answers = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1))
    found = world(
        lambda at: answers[at % len(answers)][0],
        rows,
        call=call,
        step=step,
        rebuild=rebuild,
        refill=draw(st.sampled_from([0, UNIT // 30, UNIT // 2])),
        prefill=draw(st.sampled_from([0, UNIT // 500, UNIT // 10])),
        late=draw(st.one_of(st.none(), st.integers(0, 40))),
        grade=grade,
    )
    found.length = lambda _: answers[found.rounds % len(answers)][1]
    return found


@pytest.mark.complaint(n=2)
@settings(max_examples=600)
@given(worlds())
def test_it_never_loses_more_than_its_bound(found: World) -> None:
    """After every round, on the modelled cost, whatever is accepted."""
    plain = found.costs.rows[0]
    for _ in range(120):
        found.round()
        allowed = ALLOWANCE_PERCENT * plain + LOSS_PERCENT * plain * found.at
        assert 100 * (found.cost - plain * found.at) <= allowed


@pytest.mark.parametrize("rebuild", [0, UNIT // 12])
@pytest.mark.parametrize(("call", "step"), [(0, 0), (UNIT // 10, UNIT // 20)])
def test_an_adversary_costs_three_percent_of_a_request_of_100_tokens(
    call: int, step: int, rebuild: int
) -> None:
    """It is right until it is trusted, and wrong whenever that costs most."""
    found = world(lambda _: 0, call=call, step=step, rebuild=rebuild, grade=30)
    asked: list[int] = []
    found.right = lambda at: 8 if len(asked) % 5 == 4 else 0
    while found.at < 100:
        asked.append(found.round())
    assert found.cost <= 1.03 * found.costs.rows[0] * found.at


# --- what it chooses ----------------------------------------------------------


@pytest.mark.parametrize("rows", [STEEP, STEPPED, FLAT])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97])
@pytest.mark.parametrize("rebuild", [0, UNIT // 12])
@pytest.mark.parametrize(("call", "step"), [(0, 0), (UNIT // 50, UNIT // 25)])
def test_it_comes_to_the_best_fixed_width(
    rows: tuple[int, ...], p: float, call: int, step: int, rebuild: int
) -> None:
    """Stationary acceptance: within its margin of 6% of the best width in hindsight."""
    found = world(chances(p, seed=7), rows, call=call, step=step, rebuild=rebuild)
    found.until(1500)
    start, spent = found.at, found.cost
    found.until(6000)
    assert (found.cost - spent) / (found.at - start) <= 1.07 * best_fixed(p, found.costs)


def test_it_prefers_a_row_count_that_is_cheap() -> None:
    """On this curve 8 rows cost less than 5, 6 or 7."""
    found = world(chances(0.9, seed=3), STEPPED)
    found.until(600)
    widths = found.until(1200)
    assert set(widths) <= {0, 3, 7}
    assert widths.count(7) > len(widths) // 2


def test_it_keeps_the_row_count_where_another_is_hardly_better() -> None:
    """Widths 2 and 3 take turns where a turn is free, and hardly do where it has a price."""
    turns = {}
    for rebuild in (0, UNIT // 12):
        found = world(chances(0.7, seed=5), GENTLE, rebuild=rebuild)
        found.until(300)
        widths = found.until(1500)
        turns[rebuild] = sum(a != b for a, b in pairwise(widths))
    assert 4 * turns[UNIT // 12] < turns[0]


def test_the_way_back_is_reckoned_with() -> None:
    """A turn costs over half a pass each way, for a gain of little more than one."""
    assert made(FLAT, grade=5).width([1, 2]) == 2
    assert made(FLAT, rebuild=UNIT * 29 // 50, grade=5).width([1, 2]) == 0
    assert made(FLAT, refill=UNIT * 9 // 10, grade=5).width([1, 2]) == 0


def test_a_narrower_pass_costs_more_the_wider_the_one_before_was() -> None:
    costs = Costs(FLAT, rebuild=10, refill=3)
    assert [costs.turn(5, width) for width in (5, 6, 4, 0)] == [0, 10, 13, 25]


@pytest.mark.parametrize(("call", "step"), [(0, 0), (UNIT // 50, UNIT // 25)])
def test_it_stops_and_comes_back_when_the_text_changes(call: int, step: int) -> None:
    good, bad = chances(0.95, seed=1), chances(0.02, seed=2)
    found = world(lambda at: (bad if 400 <= at < 800 else good)(at), call=call, step=step)
    assert max(found.until(400)[-10:]) == 7
    assert max(found.until(800)[-40:]) == 0
    assert found.until(1200)[-5:].count(0) <= 1


def test_what_is_not_verified_teaches_a_free_proposer() -> None:
    """Nothing is drafted at first, since the proposer is hardly sure; the text then agrees."""
    found = world(lambda _: 7, grade=2)
    widths = found.until(60)
    assert widths[0] == 0
    assert widths[-1] == 7


def test_it_drafts_at_once_where_the_proposer_is_sure() -> None:
    assert world(lambda _: 7, grade=32).until(1)[0] > 0


def test_a_draft_that_can_never_pay_is_never_asked() -> None:
    """0.69 of a target pass a token: not even full acceptance makes up for it."""
    found = world(lambda _: 7, step=690_000)
    assert found.until(500) == [0] * 500
    assert found.cost == found.costs.rows[0] * 500


def test_a_prompt_that_costs_too_much_to_take_in_is_never_taken_in() -> None:
    """Each token costs a tenth of a pass: 20 of them two passes, and every round adds one."""
    found = world(lambda _: 7, step=UNIT // 50, prefill=UNIT // 10, late=20)
    assert found.until(500) == [0] * 500
    assert found.cost == found.costs.rows[0] * 500


def test_a_prompt_is_taken_in_once_it_is_affordable() -> None:
    """1.4 passes: the loss that is allowed has to grow first, by 2% of a pass a token."""
    found = world(lambda _: 7, step=UNIT // 50, prefill=UNIT // 200, late=280)
    widths = found.until(300)
    assert widths[0] == 0
    assert widths[-1] == 7


def test_a_probe_costs_the_draft_and_no_rows() -> None:
    found = world(lambda _: 0, step=UNIT // 10)
    assert set(found.until(1000)) <= {0, 1}
    loss = found.cost - UNIT * found.at
    assert 0 < 100 * loss <= ALLOWANCE_PERCENT * UNIT + UNIT * found.at


def test_a_fixed_shape_costs_the_same_whatever_is_drafted() -> None:
    """Then every proposal that may be right is verified whole."""
    controller = made((5 * UNIT,) * 8, grade=3)
    assert controller.ask() == 7
    assert controller.width(range(7)) == 7


def test_it_stays_within_the_window_and_above_the_least_width() -> None:
    """A width beyond the window could be replayed, and below the least one there is no round."""
    assert made(FLAT, window=4, grade=32).ask() == 4
    controller = made(STEEP, draft_min=5, grade=6)
    assert {controller.width(range(7)) for _ in range(3)} <= {0, 5, 6, 7}
    assert made(FLAT, draft_min=5, window=4, step=1).ask() == 0


def test_it_needs_costs() -> None:
    plan = Settings(draft_max=1, draft_min=0, window=1, snapshots=1, context=9, controller="cost")
    with pytest.raises(ValueError, match="costs"):
        CostController(plan)


# --- what it learns -----------------------------------------------------------


def test_chances_start_from_the_run_and_move_with_the_request() -> None:
    acceptance = Acceptance()
    start = [acceptance.chance(run) for run in range(1, LONGEST_RUN + 1)]
    assert start == sorted(start)
    assert start[0] == 0.0
    assert start[3] == pytest.approx(2 / 3)
    assert acceptance.chance(LONGEST_RUN + 9) == start[-1]
    for _ in range(40):
        acceptance.learn(2, right=True)
        acceptance.learn(9, right=False)
    assert acceptance.chance(2) > 0.85
    assert acceptance.chance(8) < 0.2  # 8 to 11 are one class
    assert acceptance.chance(12) == start[11]


def test_a_rehearsal_holds_one_proposal_against_the_text() -> None:
    seen: list[tuple[int, bool]] = []

    class Noted(Acceptance):
        def learn(self, run: int, *, right: bool) -> None:
            seen.append((run, right))

    rehearsal = Rehearsal(Noted())
    rehearsal.offer([1, 2, 3], 5, verified=False)
    rehearsal.watch([1])
    rehearsal.offer([9, 9], 2, verified=False)  # the one before has not ended
    rehearsal.watch([2, 8, 9])
    assert seen == [(5, True), (6, True), (7, False)]
    rehearsal.offer([4, 5], 3, verified=False)
    rehearsal.offer([6], 2, verified=True)
    rehearsal.watch([6, 7])
    assert seen[3:] == [(2, True)]
