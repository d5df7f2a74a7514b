"""Experiments on the reference backend, in a real worker: what they show and what they refuse."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

import power
from power.diagnostics import PowerError
from power.runner.experiments import (
    curve_contradiction,
    rows_contradiction,
    trial_contradiction,
)
from power.runner.messages import (
    Advice,
    AdviceKind,
    Curve,
    CurveRead,
    PassShape,
    Rows,
    RowsRead,
    Timed,
    Trial,
    Tried,
)
from power.runner.runner import Runner
from power.runner.types import Request
from power.speculation.outcome import Counters, Finish
from tests.runner.conftest import Artifacts, MakePlan, Opened
from tests.runner.test_protocol import DONE, RUN

PROMPT = Request(text="one two one two")
K = 3
TOLD: tuple[AdviceKind, ...] = ("oracle", "anti-oracle", "wrong-at", "random", "empty")


@pytest.fixture
def artifact() -> Iterator[Artifacts]:
    """A file that no engine could load; the reference backend never reads it."""
    fd = os.memfd_create("artifact")
    yield Artifacts((Opened(fd),))
    os.close(fd)


@pytest.fixture
def runner(make_plan: MakePlan, artifact: Artifacts) -> Iterator[Runner]:
    """Prompt lookup on the reference backend, K = 3."""
    plan = make_plan(
        "prompt-lookup", package="power-scripted", version=power.__version__, llama_cpp="none"
    )
    with Runner(plan, artifact, backend="scripted") as opened:
        yield opened


def test_no_proposer_changes_the_ids(runner: Runner) -> None:
    record = runner.generate(PROMPT)
    control = runner.trial(PROMPT, Advice("none"))
    assert control.done.ids == record.ids
    assert (control.done.proposer_width, control.done.counters.drafted) == (0, 0)
    accepted = {}
    for kind in TOLD:
        tried = runner.trial(PROMPT, Advice(kind, control.done.ids, seed=1), rounds=True)
        assert tried.done.ids == control.done.ids
        assert (tried.margins, tried.proposals) == ((), ())
        accepted[kind] = sum(r.accepted for r in tried.rounds), sum(r.drafted for r in tried.rounds)
        assert accepted[kind] == (tried.done.counters.accepted, tried.done.counters.drafted)
    assert accepted["empty"] == (0, 0)
    assert accepted["oracle"][0] == accepted["oracle"][1] > 0
    assert accepted["anti-oracle"][0] == 0 < accepted["anti-oracle"][1]
    assert 0 < accepted["wrong-at"][0] < accepted["wrong-at"][1]


def test_a_recording_asks_everywhere_and_uses_nothing(runner: Runner) -> None:
    own = runner.trial(PROMPT, rounds=True)
    recorded = runner.trial(PROMPT, Advice("recording"), margins=True)
    ids = recorded.done.ids
    assert ids == own.done.ids
    assert len(recorded.margins) == len(ids) == recorded.done.counters.rounds
    assert recorded.done.counters.drafted == 0
    assert len(recorded.proposals) == len(ids) - (recorded.done.finish is Finish.LENGTH)
    # The recording explains the real run: round by round, what was drafted and accepted there.
    at = 0
    for one in own.rounds:
        proposal = recorded.proposals[at] if at < len(recorded.proposals) else ()
        right = next((i for i, t in enumerate(proposal) if t != ids[at + i]), len(proposal))
        assert (one.drafted, one.accepted) == (len(proposal), right)
        at += one.accepted + 1


def test_a_trial_at_another_shape_runs(runner: Runner) -> None:
    plain = runner.trial(PROMPT, Advice("none"), rows=1, rounds=True)
    fixed = runner.trial(PROMPT, rows=K + 1, rounds=True)
    assert plain.done.ids == fixed.done.ids
    assert {r.drafted for r in plain.rounds} == {0} < {r.drafted for r in fixed.rounds}
    assert all(r.wall_ns >= r.draft_ns + r.verify_ns > 0 for r in fixed.rounds)
    with pytest.raises(PowerError) as refused:  # a proposal does not fit one row
        runner.trial(PROMPT, Advice("random"), rows=1)
    assert refused.value.exit_code == 4


def test_rows_are_the_same_in_passes_of_every_shape(runner: Runner) -> None:
    ids = runner.trial(PROMPT, Advice("none")).done.prompt_ids
    shapes = [PassShape(1, 1), PassShape(4, 4), PassShape(4, 2, 65), PassShape(4, 1, 66)]
    found = runner.rows(ids, [2, 5], 7, shapes)
    by_cells = {
        cells: [walk.rows for walk in found.walks if walk.cells == cells] for cells in (2, 5)
    }
    assert [len(walks) for walks in by_cells.values()] == [4, 4]
    for walks in by_cells.values():
        assert walks.count(walks[0]) == 4
    assert by_cells[2][0][3:] == by_cells[5][0][:4]  # the same positions, reached from elsewhere
    assert len({row.digest for row in by_cells[2][0]}) == 7


def test_a_curve_has_every_time_that_was_asked_for(runner: Runner) -> None:
    ids = runner.trial(PROMPT, Advice("none")).done.prompt_ids
    found = runner.curve(ids, [4, 10], [1, 4], widths=[1, 2], repeats=3)
    assert [(t.cells, t.size, t.drafted) for t in found.passes] == [
        *((4, 1, 0), (4, 4, 0)),
        *((10, 1, 0), (10, 4, 0)),
    ]
    assert [(t.cells, t.size, t.drafted) for t in found.drafts] == [
        *((4, 1, 0), (4, 2, 0)),
        *((10, 1, 1), (10, 2, 2)),  # behind "one two on"
    ]
    assert {len(t.ns) for t in (*found.passes, *found.drafts)} == {3}
    assert runner.generate(PROMPT).ids  # the engine is as good as before


@pytest.mark.parametrize(
    "how",
    [
        {"shapes": [PassShape(5, 1)]},
        {"shapes": [PassShape(2, 3)]},
        {"shapes": [PassShape(2, 1, 600)]},
        {"cells": [0]},
        {"span": 13},
        {"cells": [506]},
    ],
)
def test_rows_that_do_not_fit_are_refused(runner: Runner, how: dict[str, object]) -> None:
    asked = {"cells": [4], "span": 4, "shapes": [PassShape(4, 4)]} | how
    ids = range(16 if asked["cells"] != [506] else 512)
    with pytest.raises(ValueError, match=r"rows|vocabulary|cells"):
        runner.rows(ids, **asked)  # type: ignore[arg-type]


def test_times_that_do_not_fit_are_refused(runner: Runner) -> None:
    for counts, widths, cells in (((5,), (), 4), ((1,), (4,), 4), ((4,), (), 12)):
        with pytest.raises(ValueError, match=r"rows|tokens|cells"):
            runner.curve(range(16), [cells], counts, widths=widths, repeats=1)


def test_a_cancel_ends_an_experiment(runner: Runner) -> None:
    runner.cancel()
    with pytest.raises(KeyboardInterrupt):
        runner.rows(range(16), [4], 4, [PassShape(1, 1)])


ROWS = Rows(5, (1, 2, 3), (1,), 1, (PassShape(1, 1),))
CURVE = Curve(6, (1, 2, 3), (1,), (2,), (), 2, 1)


def test_an_answer_that_contradicts_its_question_is_seen() -> None:
    trial = Trial(RUN, Advice("recording"), margins=True)
    done = replace(DONE, ids=(3,), counters=Counters(rounds=1))
    good = Tried(done, ("0.125000",), ((4,),), ())
    assert trial_contradiction(trial, good) is None
    assert trial_contradiction(trial, replace(good, margins=()))
    assert trial_contradiction(trial, replace(good, margins=("1",)))
    assert trial_contradiction(replace(trial, rounds=True), good)
    assert trial_contradiction(replace(trial, advice=Advice()), good)
    assert rows_contradiction(ROWS, RowsRead(5, ()))
    assert curve_contradiction(CURVE, CurveRead(6, (), ()))
    times = Timed(1, 2, 0, (5, 5), (3, 3), (5, 6), (4, 4))
    assert curve_contradiction(CURVE, CurveRead(6, (times,), ())) is None
    for change in ({"plain_ns": (3, 0)}, {"plain_ns": (3,)}, {"ns": (5,)}, {"back_ns": ()}):
        odd = replace(times, **change)
        assert curve_contradiction(CURVE, CurveRead(6, (odd,), ())), change
