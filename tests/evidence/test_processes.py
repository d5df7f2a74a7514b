"""A matrix on several engine processes of this machine: the same claims, whoever dies."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.evidence.design import Design
from power.evidence.executor import InOrder, Lane
from power.evidence.fan_out.processes import Processes
from power.evidence.fan_out.roster import TRIES, Roster
from power.evidence.workplace import LaneSpec, Workplace
from power.plan.verified import open_verified
from tests.evidence.real_matrix import Matrix, children, interrupted, make, no_guard

pytestmark = pytest.mark.engine
ENGINE = "power.runner.worker"


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    return make(tmp_path)


@pytest.fixture
def long(tmp_path: Path) -> Matrix:
    """Sessions that are far from their end when their first sample is there."""
    return make(tmp_path, prompts=24)


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The codes of every session that failed."""
    found: list[list[str]] = []
    end = Roster.end

    def noting(roster: Roster, session: Any, error: Any) -> None:
        if isinstance(error, PowerError):
            found.append([d.code for d in error.diagnostics])
        end(roster, session, error)

    monkeypatch.setattr(Roster, "end", noting)
    return found


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """No process and no descriptor outlives a run."""
    before = _descriptors()
    yield
    assert children(ENGINE) == []
    assert _descriptors() <= before


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def in_order(matrix: Matrix, place: Workplace) -> InOrder:
    lanes = [Lane(partial(place.open, spec), spec.control) for spec in matrix.specs]
    return InOrder(lanes, matrix.prompts, 0)


def test_claims_are_those_of_one_after_another(matrix: Matrix) -> None:
    with Workplace(no_guard) as place:
        expected = matrix.claims(in_order(matrix, place))
    assert len(expected) == len(matrix.cells)
    assert matrix.claims(Processes(matrix.specs, matrix.prompts, 1, 2)) == expected


def test_more_workers_than_sessions(matrix: Matrix) -> None:
    few = matrix.sessions[:1]
    found = list(Processes(matrix.specs, matrix.prompts, 0, 8).run(few))
    assert sorted(one.cell for one in found) == list(few[0].cells())


def test_no_sessions(matrix: Matrix) -> None:
    assert list(Processes(matrix.specs, matrix.prompts, 0, 2).run([])) == []


def test_a_model_is_sealed_once(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan and its control share what was sealed, in every worker and session."""
    sealed = []
    real = open_verified

    def counting(*given: Any) -> Any:
        sealed.append(given)
        return real(*given)

    monkeypatch.setattr("power.evidence.workplace.open_verified", counting)
    specs, sessions = matrix.specs[:2], list(Design(2, len(matrix.prompts), 2).sessions())
    found = list(Processes(specs, matrix.prompts, 0, 3).run(sessions))
    assert len(found) == 4 * len(matrix.prompts)
    assert len(sealed) == 1


def test_killed_workers_lose_and_repeat_nothing(long: Matrix, deaths: list[list[str]]) -> None:
    came: Counter[Any] = Counter()
    for finished in Processes(long.specs, long.prompts, 0, 2).run(long.sessions):
        if not came:
            for engine in children(ENGINE):
                engine.send_signal(signal.SIGKILL)
        came[finished.cell] += 1
    assert came == Counter(long.cells)
    assert deaths
    assert {code for codes in deaths for code in codes} == {"P517"}


def test_a_worker_that_is_always_killed_is_given_up(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch, deaths: list[list[str]]
) -> None:
    real = Workplace.open

    @contextmanager
    def killed(place: Workplace, spec: LaneSpec) -> Iterator[Any]:
        with real(place, spec) as found:
            for engine in children(ENGINE):
                engine.send_signal(signal.SIGKILL)
            yield found

    monkeypatch.setattr(Workplace, "open", killed)
    with pytest.raises(PowerError) as failed:
        list(Processes(matrix.specs, matrix.prompts, 0, 1).run(matrix.sessions))
    assert [d.code for d in failed.value.diagnostics] == ["P875", "P517"]
    assert len(deaths) == TRIES


def test_a_changed_artifact_is_refused_once(matrix: Matrix, deaths: list[list[str]]) -> None:
    path = matrix.folder / "target.gguf"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(PowerError) as refused:
        list(Processes(matrix.specs, matrix.prompts, 0, 1).run(matrix.sessions))
    assert [d.code for d in refused.value.diagnostics] == ["P231"]
    assert refused.value.exit_code is ExitCode.BROKEN_TRUST
    assert deaths == [["P231"]]


def test_an_edited_plan_is_refused(matrix: Matrix) -> None:
    edited = matrix.specs[0].plan.replace(b"threads = 1", b"threads = 2")
    specs = [replace(spec, plan=edited) for spec in matrix.specs]
    with pytest.raises(PowerError) as refused:
        list(Processes(specs, matrix.prompts, 0, 2).run(matrix.sessions))
    assert refused.value.exit_code is ExitCode.BROKEN_TRUST


def test_an_interruption_ends_every_worker(long: Matrix) -> None:
    """Ctrl-C comes to this thread, wherever it is; `nothing_stays` looks at what is left."""
    came = interrupted(Processes(long.specs, long.prompts, 0, 2).run(long.sessions))
    assert 0 < len(came) < len(long.cells)


def test_who_stops_listening_ends_every_worker(long: Matrix) -> None:
    with closing(Processes(long.specs, long.prompts, 0, 2).run(long.sessions)) as runs:
        next(runs)
        assert 1 <= len(children(ENGINE)) <= 2
