"""A matrix on a Ray cluster of two workers on this machine: the same claims, whoever dies."""

from __future__ import annotations

import importlib
import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

import power
from power.diagnostics import ExitCode, PowerError
from power.evidence.design import Cell
from power.evidence.executor import Finished, InOrder, Lane
from power.evidence.fan_out import over_ray
from power.evidence.fan_out.cluster import joined
from power.evidence.fan_out.over_ray import OverRay, RayWorker
from power.evidence.fan_out.roster import Ended, Roster
from power.evidence.workplace import Workplace
from tests.evidence.real_matrix import Matrix, children, interrupted, make, no_guard

pytestmark = [pytest.mark.engine, pytest.mark.slow]
ENGINE, ACTOR = "power.runner.worker", "ray::RayWorker"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two CPUs, for the whole file; afterwards no process of it and no file is left."""
    before = set(Path("/tmp").glob("power-ray-*"))
    handler = signal.getsignal(signal.SIGTERM)
    with joined("local", 2) as ray:
        assert signal.getsignal(signal.SIGTERM) is handler
        yield ray
    assert children("") == []
    assert set(Path("/tmp").glob("power-ray-*")) == before
    assert set(Path("/dev/shm").glob("plasma*")) == set()


@pytest.fixture
def matrix(cluster: Any, tmp_path: Path) -> Matrix:
    return make(tmp_path)


@pytest.fixture
def long(cluster: Any, tmp_path: Path) -> Matrix:
    """Sessions that are far from their end when their first sample is there."""
    return make(tmp_path, prompts=24)


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first code of every session that failed."""
    found: list[str] = []
    end = Roster.end

    def noting(roster: Roster, session: Any, error: Any) -> None:
        if isinstance(error, PowerError):
            found.append(error.diagnostics[0].code)
        end(roster, session, error)

    monkeypatch.setattr(Roster, "end", noting)
    return found


def over_two(matrix: Matrix) -> OverRay:
    return OverRay(matrix.specs, matrix.prompts, 0, 2, "local")


def kill(word: str) -> None:
    for process in children(word):
        process.send_signal(signal.SIGKILL)


def gone(word: str) -> bool:
    """Whether every process with `word` is gone, or goes within a minute."""
    _, alive = psutil.wait_procs(children(word), timeout=60)
    return not alive


def test_claims_are_those_of_one_after_another(matrix: Matrix) -> None:
    with Workplace(no_guard) as place:
        lanes = [Lane(partial(place.open, spec), spec.control) for spec in matrix.specs]
        expected = matrix.claims(InOrder(lanes, matrix.prompts, 0))
    assert matrix.claims(over_two(matrix)) == expected
    assert gone(ACTOR)
    assert gone(ENGINE)


@pytest.mark.parametrize(("victim", "code"), [(ENGINE, "P517"), (ACTOR, "P872")])
def test_killed_workers_lose_and_repeat_nothing(
    long: Matrix, deaths: list[str], victim: str, code: str
) -> None:
    came: Counter[Any] = Counter()
    for finished in over_two(long).run(long.sessions):
        if not came:
            kill(victim)
        came[finished.cell] += 1
    assert came == Counter(long.cells)
    assert deaths
    assert set(deaths) == {code}


def test_a_changed_artifact_is_refused_once(matrix: Matrix, deaths: list[str]) -> None:
    path = matrix.folder / "target.gguf"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(PowerError) as refused:
        list(replace(over_two(matrix), workers=1).run(matrix.sessions))
    assert [d.code for d in refused.value.diagnostics] == ["P231"]
    assert refused.value.exit_code is ExitCode.BROKEN_TRUST
    assert deaths == ["P231"]


def test_who_stops_listening_ends_every_worker(long: Matrix) -> None:
    with closing(over_two(long).run(long.sessions)) as runs:
        next(runs)
    assert gone(ACTOR)
    assert gone(ENGINE)


def test_an_interruption_ends_every_worker(long: Matrix) -> None:
    came = interrupted(over_two(long).run(long.sessions))
    assert 0 < len(came) < len(long.cells)
    assert gone(ACTOR)
    assert gone(ENGINE)


def test_no_sessions_join_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_ray, "joined", None)
    assert list(OverRay([], [], 0, 2, "local").run([])) == []


def test_a_worker_of_another_version(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "__version__", "0.0.0")
    with pytest.raises(PowerError) as refused:
        list(over_two(matrix).run(matrix.sessions))
    assert [d.code for d in refused.value.diagnostics] == ["P874"]
    assert refused.value.exit_code is ExitCode.BROKEN_TRUST


def test_no_machine_has_room(cluster: Any, tmp_path: Path) -> None:
    wide = make(tmp_path, threads=64)
    with pytest.raises(PowerError) as failed:
        list(replace(over_two(wide), patience_s=0.5).run(wide.sessions))
    assert [d.code for d in failed.value.diagnostics] == ["P873"]
    assert failed.value.diagnostics[0].expected == (
        "a machine with 64 free CPUs, Power and its engine"
    )


def test_a_worker_that_cannot_begin(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(RayWorker):
        def __init__(self, *_: Any) -> None:
            os._exit(1)

    monkeypatch.setattr(over_ray, "RayWorker", Broken)
    with pytest.raises(PowerError) as failed:
        list(over_two(matrix).run(matrix.sessions))
    assert [d.code for d in failed.value.diagnostics] == ["P873"]


def test_artifacts_are_found_where_the_machine_keeps_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the plan's folder is not there, its own POWER_ARTIFACTS has them."""
    made = make(tmp_path)
    elsewhere = [replace(spec, lock=Path("/nowhere/plan.lock")) for spec in made.specs]
    session = made.sessions[0]
    prompts = dict(enumerate(made.prompts))
    monkeypatch.delenv("POWER_ARTIFACTS", raising=False)
    with pytest.raises(PowerError) as refused:
        samples(RayWorker(elsewhere, 0).perform(session, prompts))
    assert [d.code for d in refused.value.diagnostics] == ["P221"]
    monkeypatch.setenv("POWER_ARTIFACTS", str(tmp_path))
    assert samples(RayWorker(elsewhere, 0).perform(session, prompts)) == list(session.cells())


def samples(events: Iterator[Finished | Ended]) -> list[Cell]:
    """The samples of a session; raises the error that it ended with."""
    *found, ended = events
    assert isinstance(ended, Ended)
    if ended.error is not None:
        raise ended.error
    return [one.cell for one in found if isinstance(one, Finished)]


@pytest.mark.parametrize("address", ["nonsense", "ray://127.0.0.1:10001", "127.0.0.1:0", ":6379"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(PowerError) as refused, joined(address, 1):
        pass
    assert [d.code for d in refused.value.diagnostics] == ["P871"]
    assert refused.value.exit_code is ExitCode.CANNOT_JUDGE


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(PowerError) as refused, joined(f"127.0.0.1:{port}", 1):
        pass
    assert refused.value.diagnostics[0].found == "Connection refused"


@contextmanager
def answering(*parts: bytes) -> Iterator[str]:
    """The address of a server that sends `parts` to the first who comes, and holds the line."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = list[socket.socket]()

        def serve() -> None:
            held.append(server.accept()[0])
            for part in parts:
                held[0].sendall(part)

        thread = Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()
        held[0].close()


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ((), "no answer within 0.2 s"),
        ((b"\x00\x00\x06\x04", b"\x00"), "no answer within 0.2 s"),
        ((b"SSH-2.0-OpenSSH_9.6\r\n",), "something that is not Ray"),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "something that is not Ray"),
    ],
    ids=["silent", "half", "ssh", "http"],
)
def test_something_else_listens(
    monkeypatch: pytest.MonkeyPatch, parts: tuple[bytes, ...], found: str
) -> None:
    """Ray itself would try for 14 minutes."""
    monkeypatch.setattr("power.evidence.fan_out.cluster._ANSWER_S", 0.2)
    with answering(*parts) as address, pytest.raises(PowerError) as refused, joined(address, 1):
        pass
    (said,) = refused.value.diagnostics
    assert (said.code, said.found) == ("P871", found)


def test_a_server_that_hangs_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            server.accept()[0].close()

        thread = Thread(target=hang_up)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(PowerError) as refused, joined(address, 1):
            pass
        thread.join()
    assert refused.value.diagnostics[0].code == "P871"


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(PowerError) as refused, joined("local", 1):
        pass
    (found,) = refused.value.diagnostics
    assert (found.code, found.hint) == (
        "P870",
        "`pip install 'power-spec[ray]'`, on every machine of the cluster",
    )
    assert refused.value.exit_code is ExitCode.CANNOT_JUDGE
