"""The parent's side of a worker process: start, talk, watch, reap."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from typing import NoReturn

from power.diagnostics import Diagnostic, PowerError, fail
from power.runner.crash import excerpt, explain_end, oom_kills
from power.runner.frames import parse_frame
from power.runner.limits import CLOSE_GRACE_S, TIMEOUT_VARIABLE
from power.runner.messages import Alive, Close, FromWorker, Prefilled, ToWorker
from power.runner.protocol import FrameBuffer, FrameError, encode
from power.runner.spawn import child_environment, python_module

LOG_BYTES = 64 * 1024
"""How much of the worker's output is kept, its end."""

WORKER = python_module("power.runner.worker")

_READ = 1 << 16
_READS = 16  # of the pipe at a time
_LONGEST_S = 1e6  # what select() takes, and more than anybody waits
_EXIT_S = 2.0  # between the end of the socket and the end of the process


class WorkerProcess:
    """One worker, from start to reaping. Every failure is one PowerError with exit code 4.

    The worker has its own session, so that Ctrl-C in the terminal reaches the
    parent alone. The thread that makes this object has to outlive it: on Linux
    the worker dies with that thread.

    command: what is started, with the socket's file descriptor and our process
    id appended. descriptors: files the worker inherits under the same numbers.
    limit_s: the longest silence, see `power.runner.limits`.
    """

    def __init__(
        self, descriptors: Sequence[int], limit_s: float, command: Sequence[str] = WORKER
    ) -> None:
        self.doing = "it started"  # for messages, after "while"
        self._limit_s = limit_s
        self._calls = 1  # native calls that may pass until the next frame
        self._oom_before = oom_kills()
        self._frames = FrameBuffer()
        self._log = bytearray()
        self._ended = False  # the socket has
        self._woken = False
        self._ours = contextlib.ExitStack()  # every descriptor of our side
        try:
            self._start(command, descriptors)
        except OSError as error:
            self._ours.close()
            fail(
                "P508",
                f"the engine's worker could not be started: {error.strerror}",
                place=str(command[0]),
                hint="check that Python's executable is there, that processes can be made, "
                "and that more files can be opened (`ulimit -n`)",
            )

    def _start(self, command: Sequence[str], descriptors: Sequence[int]) -> None:
        """Make what connects the two processes, then the worker; OSError leaves `_ours`."""
        ours = self._ours
        self._selector = ours.enter_context(selectors.DefaultSelector())
        with contextlib.ExitStack() as theirs:
            self._socket, their_socket = socket.socketpair()
            ours.enter_context(self._socket)
            theirs.enter_context(their_socket)
            self._wake_in, self._wake_out = socket.socketpair()
            ours.enter_context(self._wake_in)
            ours.enter_context(self._wake_out)
            self._output, their_output = os.pipe()
            ours.callback(os.close, self._output)
            theirs.callback(os.close, their_output)
            for end in (self._socket, self._wake_in, self._wake_out):
                end.setblocking(False)  # noqa: FBT003 - the name says it
            os.set_blocking(self._output, False)
            for source in (self._socket, self._wake_in, self._output):
                self._selector.register(source, selectors.EVENT_READ)
            self._child = subprocess.Popen(
                [*command, str(their_socket.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=their_output,  # kept for the crash message, never shown as output
                stderr=their_output,
                env=child_environment(),
                pass_fds=(their_socket.fileno(), *descriptors),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._child.pid

    @property
    def log(self) -> bytes:
        """The end of what the worker wrote to stdout and stderr."""
        return bytes(self._log)

    def wake(self) -> None:
        """Make a waiting `receive` return None; callable from a signal handler or a thread."""
        # A full buffer means that a wake-up is on its way already.
        with contextlib.suppress(OSError):
            self._wake_out.send(b"\0")

    def send(self, message: ToWorker) -> None:
        """Send `message` whole, within the limit."""
        try:
            data = memoryview(encode(message))
        except FrameError as error:
            fail("P515", f"the request is too large: {error}", hint="shorten the prompt")
        deadline = time.monotonic() + min(self._limit_s, _LONGEST_S)
        with selectors.DefaultSelector() as ready:
            ready.register(self._socket, selectors.EVENT_WRITE)
            while data:
                if not ready.select(max(0.0, deadline - time.monotonic())):
                    self._fail_silent()
                try:
                    data = data[self._socket.send(data) :]
                except BlockingIOError:
                    continue
                except OSError:
                    self._read_socket()  # its last words may explain its end
                    return

    def receive(self, until: float | None = None) -> FromWorker | None:
        """The worker's next message; None after `wake`.

        until: a time of `time.monotonic`; past it TimeoutError is raised.
        Signs of life are taken in here and not returned.
        """
        deadline = time.monotonic() + self._silence_s
        while True:
            message = self._next_frame()
            if isinstance(message, Alive):
                self._calls = max(1, message.calls)
                deadline = time.monotonic() + self._silence_s
                continue
            if message is not None:
                if not isinstance(message, Prefilled):  # the calls that were announced go on
                    self._calls = 1
                return message
            if self._ended:
                self._fail_ended()
            now = time.monotonic()
            if now >= deadline:  # whatever it wrote meanwhile, no frame came
                self._fail_silent()
            if until is not None and now >= until:
                raise TimeoutError
            self._pump(deadline if until is None else min(deadline, until))
            if self._woken:
                self._woken = False
                return None

    def close(self) -> None:
        """Let the worker free its engine, then see that it is gone. Safe to call again."""
        if self._child.returncode is None:
            with contextlib.suppress(OSError):
                self._socket.send(encode(Close()))
            deadline = time.monotonic() + CLOSE_GRACE_S
            while not self._ended and time.monotonic() < deadline:
                self._pump(deadline)
            if self._ended:
                self._wait(_EXIT_S)
        self.kill()

    def kill(self) -> None:
        """End the worker and whatever it started, reap it, and close every descriptor."""
        if self._child.returncode is None:
            # Not reaped, so its number still names its process group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        if self._selector.get_map() is not None:
            self._drain()
            self._ours.close()

    def _next_frame(self) -> FromWorker | None:
        try:
            body = self._frames.next()
            return None if body is None else parse_frame(body)
        except FrameError as error:
            self.fail_protocol(str(error))

    @property
    def _silence_s(self) -> float:
        """How long the next frame may take."""
        return min(self._limit_s * self._calls, _LONGEST_S)

    def _pump(self, until: float) -> None:
        """Wait for something to come before `until` and take it in."""
        events = self._selector.select(max(0.0, until - time.monotonic()))
        ready = {key.fileobj for key, _ in events}
        if self._output in ready:
            self._drain()
        if self._socket in ready:
            self._read_socket()
        if self._wake_in in ready:
            self._wake_in.recv(_READ)
            self._woken = True

    def _read_socket(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._frames.feed(data)
        elif not self._ended:
            self._ended = True
            self._selector.unregister(self._socket)

    def _drain(self) -> None:
        """Keep the end of what the worker wrote, so that it never blocks on the pipe."""
        for _ in range(_READS):  # a worker that never stops must not keep us here
            try:
                data = os.read(self._output, _READ)
            except BlockingIOError:
                return
            if not data:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(self._output)
                return
            self._log += data
            del self._log[:-LOG_BYTES]

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _fail_ended(self) -> NoReturn:
        status = self._wait(_EXIT_S)
        self.kill()
        raise PowerError((explain_end(status, self.doing, self.log, self._oom_before),))

    def _fail_silent(self) -> NoReturn:
        self.kill()
        raise PowerError(
            (
                Diagnostic(
                    "P503",
                    f"the engine's worker was silent for {self._silence_s:g} s "
                    f"while {self.doing}, and was ended",
                    found=excerpt(self.log),
                    hint=f"on a slow host give it more time: `{TIMEOUT_VARIABLE}=SECONDS`",
                ),
            )
        )

    def fail_protocol(self, found: str) -> NoReturn:
        """End a worker whose messages make no sense, and say so (P504)."""
        self.kill()
        raise PowerError(
            (
                Diagnostic(
                    "P504",
                    f"the engine's worker sent what is no message of ours while {self.doing}",
                    found=found,
                    hint="its memory may be damaged: check the artifact and report this",
                ),
            )
        )
