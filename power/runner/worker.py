"""The worker process: loads one engine, runs requests one after another, holds no key.

Started as `python -m power.runner.worker SOCKET PARENT` by `power.runner.process`.
Two threads: the main one runs the engine; the other waits for commands, so that
a cancel arrives while a pass runs, and the end of the parent ends the worker
even inside a native call.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace

from power.backends.errors import EngineError
from power.backends.interface import Engine, Session
from power.backends.registry import backend
from power.diagnostics import Diagnostic, ExitCode, PowerError, fail
from power.runner.confine import apply_host, confine, peak_rss
from power.runner.messages import (
    Alive,
    Cancel,
    Curve,
    Done,
    Emit,
    Experiment,
    FromWorker,
    Load,
    Prefilled,
    Progress,
    Ready,
    Refused,
    Rows,
    Run,
    ToWorker,
    Trial,
)
from power.runner.protocol import encode, read_command
from power.runner.workbench import Parts, Trying, read_curve, read_rows
from power.speculation.controller import Controller, make_controller
from power.speculation.outcome import Finish, Outcome, Phase
from power.speculation.scheduler import generate

_clock = time.monotonic_ns  # one clock for both processes


class Link:
    """The worker's end of the socket; `orphaned` is called when the parent has gone."""

    def __init__(self, sock: socket.socket, orphaned: Callable[[], object]) -> None:
        self._sock = sock
        self._orphaned = orphaned
        self._commands: queue.SimpleQueue[ToWorker | None] = queue.SimpleQueue()
        self._cancelled = 0  # the highest request number that was cancelled
        self._last_sent = time.monotonic()
        threading.Thread(target=self._listen, name="commands", daemon=True).start()

    def _listen(self) -> None:
        try:
            while (command := self._next()) is not None:
                if isinstance(command, Cancel):
                    self._cancelled = max(self._cancelled, command.number)
                else:
                    self._commands.put(command)
        except Exception as error:  # noqa: BLE001 - a command that cannot be read: nobody waits
            traceback.print_exception(error, file=sys.stderr)
        finally:
            self._commands.put(None)
            self._orphaned()

    def _next(self) -> ToWorker | None:
        try:
            return read_command(self._sock)
        except OSError:
            return None

    def receive(self) -> ToWorker | None:
        """The next command that is not a cancel, waiting for it; None without a parent."""
        return self._commands.get()

    def send(self, message: FromWorker) -> None:
        """Send `message` whole."""
        self._sock.sendall(encode(message))
        self._last_sent = time.monotonic()

    def is_cancelled(self, number: int, beat_s: float) -> bool:
        """Whether request `number` is to end; shows a sign of life when it is due.

        The scheduler asks between native calls, so that a hung one stays silent.
        """
        if time.monotonic() - self._last_sent >= beat_s:
            self.send(Alive())
        return self._cancelled >= number


def serve(link: Link) -> None:
    """Load what the first command says, then run requests until told to close."""
    load = link.receive()
    if not isinstance(load, Load):
        return
    try:
        engine, ready = _load(link, load)
    except Exception as error:  # noqa: BLE001 - the worker's edge: everything becomes a diagnostic
        link.send(Refused(explain(error)))
        return
    link.send(ready)
    try:
        while isinstance(command := link.receive(), Run | Experiment):
            if not _answer(link, engine, load, command):
                return
    finally:
        engine.close()


def _load(link: Link, load: Load) -> tuple[Engine, Ready]:
    try:
        notes = apply_host(load.affinity, load.nice)
    except OSError as error:
        fail(
            "P511",
            f"the host does not have the CPUs of `host.cpu_affinity`: {error.strerror or error}",
            expected=f"CPUs {', '.join(map(str, load.affinity or ()))}",
            hint="change `host.cpu_affinity` to CPUs of this host and compile again",
        )
    chosen = backend(load.backend)
    if load.require:  # before a model is read
        from power.runner.host import check_required  # noqa: PLC0415 - psutil, for few plans

        check_required(load.require, chosen.identify().devices)
    engine = chosen.open(load.engine, lambda f: link.send(Progress(float(f))))
    return engine, Ready(engine.identity, notes)


def _answer(link: Link, engine: Engine, load: Load, command: Run | Experiment) -> bool:
    """Do one thing and send what came of it; False when the engine is not to be trusted."""
    try:
        answer = _do(link, engine, load, command)
    except Exception as error:  # noqa: BLE001 - the worker's edge: everything becomes a diagnostic
        found = explain(error)
        link.send(Refused(found))
        return PowerError(found).exit_code <= ExitCode.CANNOT_JUDGE
    link.send(answer)
    return True


def _do(link: Link, engine: Engine, load: Load, command: Run | Experiment) -> FromWorker:
    def ahead(tokens: int) -> None:
        """Say how long a prompt may take, or between passes that we live."""
        if tokens:
            link.send(Alive(calls=_calls(load, tokens)))
        else:
            link.is_cancelled(0, load.beat_s)

    match command:
        case Run():
            return _run(link, engine, load, command)
        case Trial():
            trying = Trying(command, load.settings.draft_max)
            done = _run(link, engine, load, command.run, rows=command.rows, parts=trying.parts)
            return trying.tried(done)
        case Rows():
            return read_rows(engine, command, ahead)
        case Curve():
            return read_curve(engine, command, ahead)


def _calls(load: Load, tokens: int) -> int:
    """Native calls until something is heard again, when a prompt of `tokens` comes first."""
    return -(-tokens // max(1, load.engine.prefill_batch)) + 1


def _run(  # noqa: PLR0913 - what a run is made of
    link: Link,
    engine: Engine,
    load: Load,
    run: Run,
    *,
    rows: int | None = None,
    parts: Callable[[Session, Controller], Parts] = Parts.of,
) -> Done:
    received = _clock()
    prompt = engine.tokenize(run.text, special=run.special, plain=run.plain)
    tokenised = _clock()
    _check_length(len(prompt), load.settings.context)
    first: tuple[int, int] | None = None  # when the first round committed, and its tokens

    def emit(ids: Sequence[int], text: bytes) -> None:
        nonlocal first
        if first is None:
            first = _clock(), len(ids)
        if text:
            link.send(Emit(text))

    link.send(Alive(calls=_calls(load, len(prompt))))
    session = engine.session(run.sampling, control=run.control, rows=rows)
    part = parts(session, make_controller(load.settings, session.proposer))
    outcome = generate(
        prompt=prompt,
        target=part.target,
        proposer=part.proposer,
        sampler=part.sampler,
        vocabulary=engine.vocabulary,
        controller=part.controller,
        settings=load.settings,
        max_tokens=run.max_tokens,
        stop=[s.encode() for s in run.stop],
        emit=emit,
        cancelled=lambda: link.is_cancelled(run.number, load.beat_s),
        clock=_clock,
        prefilled=lambda tokens: link.send(Prefilled(tokens, len(prompt) - 1)),
    )
    end = _clock()
    if outcome.finish is Finish.FAILED:
        raise outcome.error or RuntimeError("the scheduler failed without an error")
    phases = outcome.counters.phases_ns
    phases[Phase.TOKENISE] = phases.get(Phase.TOKENISE, 0) + tokenised - received
    width = part.proposer.max_width
    return _done(run, prompt, outcome, width=width, end=end, first=first)


def _done(  # noqa: PLR0913 - the parts of one frame
    run: Run,
    prompt: list[int],
    outcome: Outcome,
    *,
    width: int,
    end: int,
    first: tuple[int, int] | None,
) -> Done:
    first_token, first_tokens = first or (None, 0)
    return Done(
        number=run.number,
        prompt_ids=tuple(prompt),
        ids=outcome.ids,
        text=outcome.text,
        finish=outcome.finish,
        proposer_width=width,
        counters=outcome.counters,
        wall_ns=end - run.clock_ns,
        first_token_ns=None if first_token is None else first_token - run.clock_ns,
        first_tokens=first_tokens,
        peak_rss_bytes=peak_rss(),
    )


def _check_length(tokens: int, context: int) -> None:
    if tokens == 0:
        fail("P513", "the prompt has no tokens", hint="give a prompt")
    if tokens > context:
        fail(
            "P514",
            f"the prompt has {tokens} tokens, the context holds {context}",
            expected=f"at most {context} tokens",
            found=f"{tokens} tokens",
            hint="shorten the prompt, or raise `graph.context` and compile again",
        )


def explain(error: BaseException) -> tuple[Diagnostic, ...]:
    """What the parent shows for `error`; a surprise also leaves its traceback on stderr."""
    match error:
        case PowerError():
            return error.diagnostics
        case EngineError():
            diagnostic = error.diagnostic()
            words = (diagnostic.found or "").splitlines()
            return (replace(diagnostic, found=" | ".join(words) or None),)
        case MemoryError():
            return (
                Diagnostic(
                    "P506",
                    "the engine's worker ran out of memory",
                    found=str(error) or None,
                    hint="lower `graph.context`, use a smaller quantisation, or free memory",
                ),
            )
    traceback.print_exception(error, file=sys.stderr)
    return (
        Diagnostic(
            "P507",
            f"the engine failed with {type(error).__name__}",
            found=str(error) or None,
            hint="run the request again; if it fails again, report it with this message",
        ),
    )


def main(arguments: Sequence[str]) -> None:
    """Confine the process, then serve the socket with file descriptor `arguments[0]`."""
    descriptor, parent = map(int, arguments)
    confine(parent)
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    serve(Link(sock, orphaned=lambda: os._exit(0)))


if __name__ == "__main__":
    main(sys.argv[1:])
