"""Certifying on the reference backend: even rows are shown to be equal, uneven ones are not."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest

from power.diagnostics import PowerError
from power.evidence.certify import certify, demanded
from power.plan.model import Plan
from power.receipt.certificate import PROPOSERS, CertificatePredicate, contradictions
from power.runner.runner import Runner
from power.runner.types import Request
from tests.receipt.scripted import open_runner, scripted_plan

Opened = AbstractContextManager[Runner]
REQUESTS = [Request("one two one two", max_tokens=12), Request("red blue red", max_tokens=12)]


def plan(rows: int | None = None, *, off: bool = False) -> Plan:
    """K = 3, at the natural shape or with `rows` rows."""
    made = scripted_plan("off" if off else "prompt-lookup")
    graph = {"shape": "natural" if rows is None else "fixed", "rows": rows, "batch": 8}
    width = {} if off else {"spec_draft_max": 3, "effective_snapshots": 3}
    header = made.target.header.model_copy(update={"vocabulary": 260})
    return made.model_copy(
        update={
            "graph": made.graph.model_copy(update=graph),
            "speculation": made.speculation.model_copy(update=width),
            "target": made.target.model_copy(update={"header": header}),
        }
    )


def opens(rows: int | None = None, *, off: bool = False, **options: Any) -> Opened:
    """The reference backend with options of its own."""
    return open_runner(plan(rows, off=off), **options)


def measured(runner: Runner, level: Any = "serial", **how: Any) -> CertificatePredicate:
    certificate = certify(runner, b"the plan's file", REQUESTS, level, **how)
    assert contradictions(certificate) == ()
    return certificate.predicate


def test_a_pure_function_of_the_prefix_is_serial() -> None:
    with opens() as runner:
        found = measured(runner)
    assert (found.level, found.demanded, found.serial) == ("serial", "serial", None)
    assert found.rows.classes == [[1, 2, 3, 4]]
    assert [at.cells for at in found.rows.by_cells] == [29, 61, 253]
    assert found.rows.padding == []
    arms = {arm.proposer: arm for arm in found.runs.arms}
    assert tuple(arms) == PROPOSERS
    assert all(arm.equal == arm.runs == 2 for arm in arms.values())
    assert arms["oracle"].accepted == arms["oracle"].drafted > 0
    assert arms["anti-oracle"].accepted == 0 < arms["anti-oracle"].drafted
    assert arms["empty"].drafted == 0
    assert found.not_covered == [
        "rows behind 260 tokens, of a context of 512",
        "other prompts than these 2, and texts beyond 12 tokens",
    ]


def test_a_fixed_shape_is_compared_with_one_row_too() -> None:
    with opens(rows=6) as runner:
        found = measured(runner)
        shape = measured(runner, "shape")
    assert found.serial is not None
    assert (found.level, found.serial.equal, found.serial.runs) == ("serial", 2, 2)
    assert [(p.real, p.equal) for p in found.rows.padding] == [
        *((1, True), (1, True)),
        *((3, True), (3, True)),
        *((5, True), (5, True)),
    ]
    assert {p.token for p in found.rows.padding} == {0, 130}
    assert (shape.level, shape.serial, shape.not_covered[-1]) == ("shape", None, "one-row decoding")


def test_rows_that_differ_are_seen_where_no_text_shows_it() -> None:
    """One-row passes differ in their last bits, and every output is equal all the same."""
    with opens(uneven=2, sway=1e-9) as runner:
        natural = measured(runner)
    with opens(rows=4, uneven=2, sway=1e-9) as runner:
        fixed = measured(runner)
    assert natural.rows.classes == [[1], [2, 3, 4]]
    assert natural.runs.forks == []
    assert natural.level == "rule"
    assert fixed.serial is not None
    assert fixed.serial.equal == 2
    assert fixed.level == "shape"


def test_outputs_that_fork_are_told_with_place_and_margin() -> None:
    with opens(uneven=2, sway=20.0) as runner:
        natural = measured(runner)
    with opens(rows=4, uneven=2, sway=20.0) as runner:
        fixed = measured(runner)
    assert natural.level == "rule"
    forks = {(fork.proposer, fork.prompt) for fork in natural.runs.forks}
    assert ("oracle", 1) in forks
    assert ("empty", 1) not in forks
    assert (fixed.level, fixed.runs.forks) == ("shape", [])
    assert fixed.serial is not None
    assert [fork.prompt for fork in fixed.serial.forks] == [1, 2]
    assert all(fork.margin is not None for fork in fixed.serial.forks)


def test_a_plan_that_is_off_has_no_proposers() -> None:
    with opens(off=True) as runner:
        natural = measured(runner)
    with opens(rows=4, off=True, uneven=2, sway=1e-9) as runner:
        fixed = measured(runner)
    assert (natural.level, natural.runs.arms, natural.rows.counts) == ("serial", [], [1])
    assert (fixed.level, fixed.rows.classes) == ("shape", [[1], [2, 3, 4]])


def test_a_replay_is_counted_apart() -> None:
    """Prefixes that were replayed are evaluated in passes of their own."""
    with opens(trim="refuse") as runner:
        found = measured(runner)
    arms = {arm.proposer: arm for arm in found.runs.arms}
    assert (arms["random"].replayed, arms["random"].replayed_equal) == (2, 2)
    assert arms["empty"].replayed == 0
    assert any("runs that did are counted apart" in text for text in found.not_covered)


def test_progress_counts_every_run() -> None:
    seen: list[tuple[int, int]] = []
    with opens(rows=4) as runner:
        measured(runner, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 17) for done in range(1, 18)]


def test_a_cancel_ends_it() -> None:
    with opens() as runner:
        runner.cancel()
        with pytest.raises(KeyboardInterrupt):
            measured(runner)


def test_a_context_without_room_is_refused() -> None:
    with opens() as runner:
        graph = runner.plan.graph.model_copy(update={"context": 11})
        runner.plan = runner.plan.model_copy(update={"graph": graph})
        with pytest.raises(PowerError) as caught:
            measured(runner)
    (found,) = caught.value.diagnostics
    assert (found.code, found.expected) == ("P840", "at least 12 tokens")


def test_the_plans_own_level_is_demanded() -> None:
    def claiming(level: Any) -> Plan:
        made = plan()
        claim = made.exactness.model_copy(update={"level": level})
        return made.model_copy(update={"exactness": claim})

    assert [demanded(claiming(level), None) for level in ("rule", "shape", "serial")] == [
        *("serial", "shape", "serial")
    ]
    assert demanded(claiming("serial"), "shape") == "shape"
