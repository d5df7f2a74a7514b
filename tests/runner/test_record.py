"""The record of a run: what is derived from the worker's report."""

from collections.abc import Container
from dataclasses import replace

import pytest

from power.backends.interface import SamplingConfig
from power.runner.messages import Done, Run
from power.runner.record import _silence, run_record
from power.runner.types import EngineRecord, HostRecord, RunRecord
from power.speculation.outcome import Counters, Finish

RUN = Run(1, "text", False, SamplingConfig(seed=3), False, 8, (), 0)
DONE = Done(1, (1, 2), (5, 900, 5, 7), b"", Finish.LENGTH, 3, Counters(), 9000, 4000, 2, 77)


def record(done: Done = DONE, reduced: Container[int] | None = None) -> RunRecord:
    return run_record(
        RUN,
        done,
        strategy="mtp",
        rendering_ns=0,
        started="",
        finished="",
        engine=EngineRecord("p", "1", "2", {}, []),
        host=HostRecord("os", "m", "c", 1, 1, 1),
        notes=(),
        reduced=reduced,
    )


@pytest.mark.parametrize(
    ("reduced", "covered"), [(None, None), (range(8), 3), (frozenset({900}), 1), (range(0), 0)]
)
def test_emitted_tokens_inside_the_reduced_vocabulary_are_counted(
    reduced: Container[int] | None, covered: int | None
) -> None:
    assert record(reduced=reduced).fr_covered == covered


def test_a_run_without_output_covers_nothing() -> None:
    assert record(replace(DONE, ids=()), range(8)).fr_covered == 0


@pytest.mark.parametrize(
    ("strategy", "counters", "said"),
    [
        ("mtp", Counters(rounds=3, drafted=1, widths=[(7, 3)]), []),
        ("off", Counters(rounds=3, widths=[(0, 3)]), []),
        ("mtp", Counters(rounds=1, widths=[(7, 1)]), []),
        (
            "mtp",
            Counters(rounds=3, widths=[(7, 3)]),
            ["the proposer had nothing that fitted"],
        ),
        ("mtp", Counters(rounds=3, widths=[(0, 3)]), ["the controller asked for nothing"]),
    ],
)
def test_a_run_that_proposed_nothing_says_why(
    strategy: str, counters: Counters, said: list[str]
) -> None:
    assert [note.partition(": ")[2] for note in _silence(strategy, counters)] == said
