"""The exactness matrix: it covers every strategy, and it says so when something is not exact."""

from dataclasses import replace
from pathlib import Path

import pytest

from power.backends.told import TOLD
from power.plan.capabilities import STRATEGIES
from power.speculation.outcome import Counters, Finish, Outcome
from tools.exactness_matrix import __main__ as matrix
from tools.exactness_matrix.cases import PREFIX, Pair, controllers, pairs, shapes
from tools.exactness_matrix.lab import Controls, Key, Tally, measure, prompts
from tools.exactness_matrix.report import markdown, problems

EXPECTED = Outcome((5, 6, 7, 8), b"", Finish.LENGTH, Counters())
MTP = Pair("t", "mtp", recurrent=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return matrix.fixtures(tmp_path_factory.mktemp("matrix"))


def test_every_strategy_and_proposer_is_in_it(files: dict[str, Path]) -> None:
    found = list(pairs(files, matrix.MADE_FOR))
    for target in matrix.MADE_FOR:
        here = {pair.strategy for pair in found if pair.target == target}
        assert here >= {"prompt-lookup", "ngram-context", *TOLD}
    assert {pair.strategy for pair in found} == {*STRATEGIES, *TOLD} - {"off"}
    for strategy in ("dflash", "dflash2", "dspark", "eagle3"):
        assert {p.recurrent for p in found if p.strategy == strategy} == {False, True}
    reduced = {pair.strategy for pair in found if pair.own_rows is not None}
    assert reduced == {"dflash", "dspark", "eagle3", "mtp"}


def test_every_width_window_head_and_controller_is_run() -> None:
    hybrid = list(shapes(MTP))
    assert {(s.k, s.s) for s in hybrid} >= {(1, 1), (3, 3), (7, 7), (7, 6), (6, 6), (10, 6), (8, 8)}
    assert {(s.fr_rule, s.fr_rows) for s in hybrid} == {("full", None), ("prefix", PREFIX)}
    assert {controllers(s) for s in hybrid} == {(False, True)}
    assert all(s.rows is None for s in hybrid if s.s < s.k)
    narrow = list(shapes(Pair("t", "dflash", recurrent=False, draft="d", max_width=7)))
    assert {s.k for s in narrow} == {1, 3, 7}
    assert {s.rows for s in narrow} == {2, 4, 8}


def test_what_has_no_controller_has_no_adaptive_run() -> None:
    for strategy in ("dflash2", "prompt-lookup", "oracle"):
        pair = Pair("t", strategy, recurrent=True)
        assert {controllers(s) for s in shapes(pair)} == {(False,)}


@pytest.mark.engine
@pytest.mark.parametrize("proposer", TOLD)
def test_a_made_up_proposer_changes_nothing(files: dict[str, Path], proposer: str) -> None:
    controls = Controls(files, count=1, max_tokens=12)
    table = measure(Pair("walk", proposer, recurrent=False), controls)
    assert sum(tally.runs for tally in table.values()) == 8
    assert list(problems(table)) == []


@pytest.mark.engine
def test_a_native_head_is_exact_at_every_window(files: dict[str, Path]) -> None:
    controls = Controls(files, count=2, max_tokens=12)
    table = measure(Pair("qwen35", "mtp", recurrent=True), controls)
    assert list(problems(table)) == []


def tally(outcome: Outcome, *, replays: int = 0, drafted: int = 4, accepted: int = 2) -> Tally:
    out = Tally()
    counters = Counters(drafted=drafted, accepted=accepted, replays=replays)
    out.add("greedy", replace(outcome, counters=counters), EXPECTED, "K7/S6 greedy prompt 0")
    return out


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (tally(EXPECTED), []),
        (tally(replace(EXPECTED, ids=(5, 6, 9, 8))), ["differs at token 2 of 4"]),
        (tally(replace(EXPECTED, ids=(5, 6))), ["differs at token 2 of 2; 4 were expected"]),
        (tally(replace(EXPECTED, finish=Finish.CONTEXT)), ["differs at token 4"]),
        (tally(replace(EXPECTED, finish=Finish.FAILED, error=OSError("x"))), ["failed: x"]),
        (tally(EXPECTED, replays=2), ["2 replays in one request"]),
        (tally(EXPECTED, accepted=0), ["greedy acceptance is 0.000"]),
        (tally(EXPECTED, accepted=4), ["greedy acceptance is 1.000"]),
        (tally(EXPECTED, drafted=0, accepted=0), ["greedy acceptance is none drafted"]),
    ],
)
def test_whatever_is_wrong_is_said(found: Tally, said: list[str]) -> None:
    table = {Key(MTP, "full", adaptive=False, shape="natural"): found}
    told = list(problems(table))
    assert len(told) == len(said)
    assert all(words in line for words, line in zip(said, told, strict=True))


@pytest.mark.parametrize(
    ("strategy", "accepted", "fine"),
    [
        ("oracle", 4, True),
        ("oracle", 3, False),
        ("anti-oracle", 0, True),
        ("anti-oracle", 1, False),
    ],
)
def test_a_made_up_proposer_is_accepted_as_it_is_made(
    strategy: str, accepted: int, fine: bool
) -> None:
    key = Key(Pair("t", strategy, recurrent=False), "full", adaptive=False, shape="fixed")
    assert (list(problems({key: tally(EXPECTED, accepted=accepted)})) == []) is fine


def test_the_table_has_a_line_a_row() -> None:
    key = Key(MTP, "prefix 200", adaptive=True, shape="natural")
    assert markdown({key: tally(EXPECTED, replays=1)}).splitlines()[-1] == (
        "| t | native head | mtp | prefix 200 | adaptive | natural | 1 of 1 | 0.500 "
        "| none drafted | 1 |"
    )


def test_prompts_start_with_a_single_token() -> None:
    found = prompts(5, 320)
    assert [len(p) for p in found] == [1, 18, 18, 54, 36]
    assert all(3 <= token < 319 for prompt in found for token in prompt)


def test_the_page_has_every_pair(files: dict[str, Path]) -> None:
    """A page of before a fixture was added says less than the command does."""
    native = {"mtp": "native head"}
    expected = {
        (pair.target, pair.draft or native.get(pair.strategy, "no model"), pair.strategy)
        for pair in pairs(files, matrix.MADE_FOR)
    }
    rows = matrix.PAGE.read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row[:1] == "|"]
    assert {tuple(row[:3]) for row in cells[2:]} == expected
