"""A worker that dies, hangs, lies or runs out of memory: one message, nothing left behind."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from power.backends.interface import EngineIdentity, SamplingConfig
from power.diagnostics import Diagnostic, ExitCode, PowerError
from power.runner import crash
from power.runner.messages import Alive, Emit, Ready, Run
from power.runner.process import LOG_BYTES, WorkerProcess
from power.runner.protocol import encode
from power.runner.types import Request
from tests.runner.conftest import MakePlan, MakeRunner

READY = Ready(EngineIdentity("power-rogue", "1.0", "none", {}, ["CPU"], ""), ())
DEEDS = {
    "abort": ("P518", "SIGABRT"),
    "segv": ("P518", "SIGSEGV"),
    "kill": ("P517", "killed (SIGKILL)"),
    "exit": ("P505", "exit status 7"),
    "memory": ("P506", "ran out of memory"),
    "engine": ("P543", "the pass failed"),
    "surprise": ("P507", "LookupError"),
    "garbage": ("P504", "no message of ours"),
    "huge": ("P504", "no message of ours"),
}


@pytest.fixture(autouse=True)
def _nothing_stays_behind(open_descriptors: Callable[[], set[str]]) -> Iterator[None]:
    """No zombie, no orphan, no open descriptor, whatever the test did."""
    before = open_descriptors()
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    assert {child.pid for child in psutil.Process().children(recursive=True)} == children
    assert open_descriptors() == before


def the_one(error: PowerError) -> Diagnostic:
    (diagnostic,) = error.diagnostics
    return diagnostic


@pytest.mark.parametrize("deed", DEEDS)
def test_a_failure_in_a_request_is_one_message(make_runner: MakeRunner, deed: str) -> None:
    code, words = DEEDS[deed]
    with make_runner() as runner, pytest.raises(PowerError) as caught:
        runner.generate(Request(f"token!{deed}"))
    diagnostic = the_one(caught.value)
    assert diagnostic.code == code
    assert words in diagnostic.message
    assert diagnostic.hint
    assert caught.value.exit_code is ExitCode.ENGINE_FAILED


@pytest.mark.parametrize("deed", ["abort", "kill", "memory", "garbage", "exit", "surprise"])
def test_a_failure_while_loading_is_one_message(make_runner: MakeRunner, deed: str) -> None:
    code, words = DEEDS[deed]
    with pytest.raises(PowerError) as caught, make_runner(content=f"load!{deed}".encode()):
        pass
    diagnostic = the_one(caught.value)
    assert diagnostic.code == code
    assert words in diagnostic.message
    assert caught.value.exit_code is ExitCode.ENGINE_FAILED


def test_text_before_a_crash_stays_and_there_is_no_record(make_runner: MakeRunner) -> None:
    parts: list[bytes] = []
    with make_runner() as runner, pytest.raises(PowerError, match="SIGABRT while running"):
        runner.generate(Request("pass4!abort"), parts.append)
    assert b"".join(parts) == b"abc"


def test_the_native_log_is_quoted_briefly(make_runner: MakeRunner) -> None:
    with make_runner() as runner, pytest.raises(PowerError) as caught:
        runner.generate(Request("pass2!abort"))
    assert the_one(caught.value).found == "ggml.c:1: GGML_ASSERT(rogue) failed"


@pytest.mark.parametrize("place", ["token", "prefill", "pass2"])
def test_a_hung_call_is_ended(make_runner: MakeRunner, place: str) -> None:
    with make_runner() as runner:
        worker = runner._worker
        assert worker is not None
        worker._limit_s = 0.3
        with pytest.raises(PowerError) as caught:
            runner.generate(Request(f"{place}!hang"))
    assert the_one(caught.value).code == "P503"
    assert "silent for" in the_one(caught.value).message
    assert "POWER_WORKER_TIMEOUT" in str(the_one(caught.value).hint)


def test_a_closed_connection_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("power.runner.process._EXIT_S", 0.1)
    program = "import os, signal, sys; os.close(int(sys.argv[1])); signal.pause()"
    worker = WorkerProcess((), 20.0, (sys.executable, "-c", program))
    with pytest.raises(PowerError, match="closed its connection while it started") as caught:
        worker.receive()
    assert the_one(caught.value).code == "P505"


def test_native_output_never_blocks_the_worker_and_is_bounded(
    make_runner: MakeRunner, capfd: pytest.CaptureFixture[str]
) -> None:
    with make_runner() as runner:
        assert runner.generate(Request("token!chatter", max_tokens=3)).text == b"abc"
        worker = runner._worker
        assert worker is not None
        assert worker.log.endswith(b"native chatter\n")
        assert len(worker.log) <= LOG_BYTES
    assert capfd.readouterr() == ("", "")


def test_a_refusal_of_the_engine_keeps_its_code(make_runner: MakeRunner) -> None:
    with make_runner() as runner, pytest.raises(PowerError) as caught:
        runner.generate(Request("token!refuse"))
    assert the_one(caught.value) == Diagnostic("P515", "the rogue refuses", hint="ask again")
    assert caught.value.exit_code is ExitCode.CANNOT_JUDGE


def test_after_a_failure_the_runner_is_closed(make_runner: MakeRunner) -> None:
    with make_runner() as runner:
        with pytest.raises(PowerError):
            runner.generate(Request("token!exit"))
        with pytest.raises(RuntimeError, match="not open"):
            runner.generate(Request("copy:a"))


@pytest.mark.complaint(n=5)
def test_a_strategy_that_did_not_run_is_a_failure(
    make_runner: MakeRunner, make_plan: MakePlan
) -> None:
    with make_runner(make_plan("prompt-lookup")) as runner, pytest.raises(PowerError) as caught:
        runner.generate(Request("lazy", max_tokens=2))
    assert the_one(caught.value).code == "P509"
    assert caught.value.exit_code is ExitCode.ENGINE_FAILED


@pytest.mark.parametrize("what", ["package", "version", "llama_cpp"])
def test_another_engine_is_refused(make_runner: MakeRunner, make_plan: MakePlan, what: str) -> None:
    plan = make_plan(**{what: "0.0.1"})
    with pytest.raises(PowerError) as caught, make_runner(plan):
        pass
    diagnostic = the_one(caught.value)
    assert (diagnostic.code, diagnostic.place) == ("P510", f"engine.{what}")
    assert diagnostic.expected == "0.0.1"
    assert caught.value.exit_code is ExitCode.BROKEN_TRUST


@pytest.mark.parametrize("changes", [{"require": ["cuda"]}, {"cpu_affinity": [4095]}])
def test_a_host_that_lacks_something_is_refused(
    make_runner: MakeRunner, make_plan: MakePlan, changes: dict[str, Any]
) -> None:
    with pytest.raises(PowerError) as caught, make_runner(make_plan(**changes)):
        pass
    assert the_one(caught.value).code == "P511"
    assert caught.value.exit_code is ExitCode.BROKEN_TRUST


def test_an_error_of_the_caller_ends_the_worker(make_runner: MakeRunner) -> None:
    def broken_pipe(_text: bytes) -> None:
        raise BrokenPipeError

    with make_runner() as runner:
        worker = runner._worker
        assert worker is not None
        with pytest.raises(BrokenPipeError):
            runner.generate(Request("copy:abc"), broken_pipe)
        assert not psutil.pid_exists(worker.pid)


def test_a_worker_that_is_not_there_is_one_message() -> None:
    with pytest.raises(PowerError) as caught:
        WorkerProcess((), 1.0, ("no-such-python",))
    assert the_one(caught.value).code == "P508"


def test_a_limit_on_open_files_is_one_message_and_leaks_nothing(
    open_descriptors: Callable[[], set[str]],
) -> None:
    before = open_descriptors()
    highest = max(map(int, before))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    codes = set()
    try:
        for more in range(24):  # each step of the start meets the limit once
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + more, hard))
            with pytest.raises(PowerError) as caught:
                WorkerProcess((), 1.0, ("no-such-python",))
            codes.add(the_one(caught.value).code)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert codes == {"P508"}
    assert open_descriptors() == before


def test_a_worker_dies_with_a_killed_parent() -> None:
    """Even inside a call that never returns."""
    program = """
import signal, sys
from power.runner.messages import Alive, Emit, Ready, Run
from power.runner.protocol import encode
from power.runner.process import WorkerProcess
code = "import os, signal, sys; from power.runner.confine import confine; "
code += "confine(int(sys.argv[2])); os.write(int(sys.argv[1]), bytes(4)); signal.pause()"
worker = WorkerProcess((), 60.0, (sys.executable, "-c", code))
worker._selector.select()  # it is confined by now
print(worker.pid, flush=True)
signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        gone, alive = psutil.wait_procs([worker], timeout=20)
    assert (len(gone), alive) == (1, [])


def test_a_worker_ends_when_its_socket_does(make_runner: MakeRunner) -> None:
    with make_runner() as runner:
        worker = runner._worker
        assert worker is not None
        worker._socket.shutdown(socket.SHUT_RDWR)
        assert worker._child.wait(20) == 0


def test_the_workers_own_session_keeps_ctrl_c_away(make_runner: MakeRunner) -> None:
    with make_runner() as runner:
        worker = runner._worker
        assert worker is not None
        assert os.getsid(worker.pid) == worker.pid != os.getsid(0)


def test_a_worker_that_dies_between_requests(make_runner: MakeRunner) -> None:
    with make_runner() as runner:
        worker = runner._worker
        assert worker is not None
        os.kill(worker.pid, signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(PowerError, match="SIGKILL") as caught:
            runner.generate(Request("copy:abc"))
    assert the_one(caught.value).code == "P517"


def test_a_worker_that_takes_nothing_in_is_ended() -> None:
    worker = WorkerProcess((), 0.3, (sys.executable, "-c", "import signal; signal.pause()"))
    with pytest.raises(PowerError) as caught:
        worker.send(Run(1, "x" * (1 << 24), False, SamplingConfig(), False, 1, (), 0))
    assert the_one(caught.value).code == "P503"


def test_noise_is_no_sign_of_life() -> None:
    noise = "import os\nwhile True: os.write(1, b'noise ' * 10_000)"
    worker = WorkerProcess((), 0.3, (sys.executable, "-c", noise))
    with pytest.raises(PowerError) as caught:
        worker.receive()
    assert the_one(caught.value).code == "P503"
    assert len(worker.log) <= LOG_BYTES


@pytest.mark.parametrize("limit_s", [0.3, 1e300])
def test_a_worker_cannot_ask_for_time_without_end(limit_s: float) -> None:
    data = encode(Alive(calls=1 << 62)) + encode(Emit(b"a"))
    program = f"import os, signal, sys; os.write(int(sys.argv[1]), {data!r}); signal.pause()"
    worker = WorkerProcess((), limit_s, (sys.executable, "-c", program))
    assert worker.receive() == Emit(b"a")
    worker.kill()


def test_a_request_that_no_frame_holds(make_runner: MakeRunner) -> None:
    with make_runner() as runner:
        with pytest.raises(PowerError, match="too large") as caught:
            runner.generate(Request("\1" * (1 << 24)))  # six bytes each in JSON
        assert the_one(caught.value).code == "P515"
        assert runner.generate(Request("copy:ok", max_tokens=2)).text == b"ok"


@pytest.mark.parametrize("frames", [[Emit(b"a")], [READY, READY]])
def test_a_message_out_of_turn(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch, frames: list[Emit | Ready]
) -> None:
    """Text while the model loads, `ready` in a request."""
    data = b"".join(map(encode, frames))
    program = f"import os, signal, sys; os.write(int(sys.argv[1]), {data!r})"
    command = (sys.executable, "-c", program + "; signal.pause()")
    monkeypatch.setattr(
        "power.runner.runner.WorkerProcess",
        lambda descriptors, limit_s: WorkerProcess(descriptors, limit_s, command),
    )
    with pytest.raises(PowerError) as caught, make_runner() as runner:
        runner.generate(Request("copy:abc"))
    assert the_one(caught.value).code == "P504"


class TestCancel:
    """`cancel()` from a signal handler or another thread."""

    def test_in_a_request_the_partial_text_stays(
        self, make_runner: MakeRunner, make_plan: MakePlan
    ) -> None:
        parts: list[bytes] = []
        with make_runner(make_plan(max_tokens=100_000, context=200_000)) as runner:

            def on_bytes(part: bytes) -> None:
                parts.append(part)
                runner.cancel()

            record = runner.generate(Request("copy:abcdef"), on_bytes)
            assert record.finish == "cancelled"
            assert b"".join(parts) == record.text
            assert 0 < len(record.ids) < 100_000
            assert runner.generate(Request("copy:go", max_tokens=2)).text == b"go"

    def test_by_sigint(self, make_runner: MakeRunner, make_plan: MakePlan) -> None:
        with make_runner(make_plan(max_tokens=1_000_000, context=2_000_000)) as runner:
            before = signal.signal(signal.SIGINT, lambda *_: runner.cancel())
            try:
                threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
                record = runner.generate(Request("copy:abcdef"))
            finally:
                signal.signal(signal.SIGINT, before)
        assert record.finish == "cancelled"

    def test_between_requests_it_ends_the_next_one(self, make_runner: MakeRunner) -> None:
        with make_runner() as runner:
            runner.cancel()
            assert runner.generate(Request("copy:abc")).finish == "cancelled"
            assert runner.generate(Request("copy:abc")).finish == "length"

    def test_while_loading_it_interrupts(self, make_runner: MakeRunner) -> None:
        runner = make_runner()
        runner._progress = lambda _: runner.cancel()
        with pytest.raises(KeyboardInterrupt), runner:
            pass

    def test_a_worker_that_does_not_answer_is_killed(
        self, make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("power.runner.runner.CANCEL_GRACE_S", 0.2)
        with make_runner() as runner:
            runner.cancel()
            with pytest.raises(KeyboardInterrupt):
                runner.generate(Request("prefill!hang"))


class TestMessages:
    """What is said of a worker that is no more."""

    def test_the_kernels_count_decides_about_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(crash, "oom_kills", lambda: 5)
        sure = crash.explain_end(-signal.SIGKILL, "it ran", b"", oom_before=4)
        unsure = crash.explain_end(-signal.SIGKILL, "it ran", b"", oom_before=5)
        assert "the kernel ended it for lack of memory" in sure.message
        assert "most often" in unsure.message

    def test_the_kernel_says_how_often_it_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        count = crash.oom_kills()
        assert count is not None
        assert count >= 0
        monkeypatch.setattr(sys, "platform", "darwin")
        assert crash.oom_kills() is None

    def test_an_unknown_signal_has_a_number(self) -> None:
        assert "signal 63" in crash.explain_end(-63, "it ran", b"", None).message

    @pytest.mark.parametrize(
        ("log", "expected"),
        [
            (b"", None),
            (b"\n \n", None),
            (b"a\nb\n\nc\nd\n", "b | c | d"),
            (b"\xff" + b"x" * 1000, "x" * 400),
        ],
    )
    def test_an_excerpt_is_short(self, log: bytes, expected: str | None) -> None:
        assert crash.excerpt(log) == expected
