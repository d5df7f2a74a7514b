"""A plan, its verified artifacts and one worker: requests in, records out."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from power.diagnostics import ExitCode, PowerError
from power.plan.model import Plan
from power.runner.experiments import (
    check_curve,
    check_rows,
    curve_contradiction,
    rows_contradiction,
    trial_contradiction,
)
from power.runner.host import check_required, host_record, resolve_threads
from power.runner.limits import CANCEL_GRACE_S, call_limit
from power.runner.messages import (
    Advice,
    Cancel,
    Curve,
    CurveRead,
    Done,
    Emit,
    PassShape,
    Prefilled,
    Progress,
    Ready,
    Refused,
    Rows,
    RowsRead,
    Run,
    Trial,
    Tried,
)
from power.runner.process import WorkerProcess
from power.runner.record import (
    check_engine,
    check_strategy,
    contradiction,
    engine_record,
    run_record,
)
from power.runner.request import check_request
from power.runner.settings import ineffective, load_command, sampling_config
from power.runner.types import EngineRecord, HostRecord, Request, RunRecord
from power.speculation.outcome import Finish

OnBytes = Callable[[bytes], None]
OnPrefill = Callable[[int, int], None]


def _ignore(*_heard: object) -> None:
    """For a caller that reads the result alone."""


OWN = Advice()
"""A trial's proposer is the plan's own, unless it is said otherwise."""

_Ended = TypeVar("_Ended", Done, Tried)
_Asked = TypeVar("_Asked", Rows, Curve)
_Answer = TypeVar("_Answer", Done, Tried, RowsRead, CurveRead)


class OpenFile(Protocol):
    """A verified artifact file."""

    @property
    def fd(self) -> int:
        """Its open descriptor."""
        ...


class Artifacts(Protocol):
    """What `power.plan.verified.open_verified` gives: files whose bytes were checked."""

    @property
    def target(self) -> Sequence[OpenFile]:
        """The target's files, in shard order."""
        ...

    @property
    def draft(self) -> Sequence[OpenFile]:
        """The draft's files; empty without one."""
        ...

    @property
    def reduced_vocabulary(self) -> Container[int] | None:
        """Token ids that a reduced draft head can propose; None where no head is reduced."""
        ...


class Runner:
    """Runs requests of one plan, one after another, on one loaded engine.

    A context manager: entering starts the worker and loads the model, leaving
    ends it. Entering and `generate` raise PowerError: exit 2 for a request that
    cannot run, 3 for an engine or a host that is not the plan's, 4 when the
    engine failed; after 3 and 4 the worker is gone.

    progress: called with the loaded fraction of the model, 0.0 to 1.0.
    extra: options of a backend that no plan has (`EngineConfig.extra`).
    """

    def __init__(
        self,
        plan: Plan,
        artifacts: Artifacts,
        *,
        backend: str = "llamacpp",
        progress: Callable[[float], None] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.plan = plan
        self._artifacts = artifacts
        self._backend = backend
        self._progress = progress
        self._extra = extra or {}
        self._limit_s = call_limit()
        self._threads = resolve_threads(plan.host)
        self._host = host_record(self._threads)
        self._worker: WorkerProcess | None = None
        self._ready: Ready | None = None
        self._number = 0
        self._cancelled = False

    def __enter__(self) -> Self:
        target = tuple(file.fd for file in self._artifacts.target)
        draft = tuple(file.fd for file in self._artifacts.draft)
        self._worker = WorkerProcess((*target, *draft), self._limit_s)
        try:
            self._ready = self._load(self._worker, target, draft)
        except BaseException:
            self._drop()
            raise
        return self

    @property
    def engine(self) -> EngineRecord:
        """The engine as the worker loaded it."""
        if self._ready is None:
            raise RuntimeError("the runner is not open: use it in a `with` block")
        return engine_record(self._ready.identity)

    @property
    def host(self) -> HostRecord:
        """The host, with the threads that the engine uses."""
        return self._host

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if error is None:
            worker.close()
        else:
            worker.kill()

    def cancel(self) -> None:
        """End the running request at its last committed round; safe in a signal handler.

        Between two requests it ends the next one; while the model is loading,
        entering raises KeyboardInterrupt.
        """
        self._cancelled = True
        if self._worker is not None:
            self._worker.wake()

    def generate(
        self,
        request: Request,
        on_bytes: OnBytes | None = None,
        on_prefill: OnPrefill | None = None,
    ) -> RunRecord:
        """Run one request; `on_bytes` gets its text as it is committed, in whole characters.

        on_prefill: gets (tokens of the prompt taken in, tokens to take in), chunk by chunk.

        All that `on_bytes` got is the record's `text`, byte for byte, also where it is
        no UTF-8. When this raises, what `on_bytes` got stays valid, and there is no
        record. A cancelled request has one, with finish `cancelled`; if the
        worker does not end the request within 10 s, KeyboardInterrupt is raised.
        Its times count from the request, the rendering of a chat included.
        """
        started = _now(earlier_ns=request.rendering_ns)
        clock = time.monotonic_ns() - request.rendering_ns
        check_request(request, self.plan.sampling)
        run = self._run(request, clock)
        strategy = "off" if run.control else self.plan.speculation.strategy
        with self._talking("running the request") as (worker, ready):
            done = self._follow(worker, run, Done, on_bytes or _ignore, on_prefill or _ignore)
            check_strategy(strategy, done.proposer_width)
        return run_record(
            run,
            done,
            strategy=strategy,
            rendering_ns=request.rendering_ns,
            started=started,
            finished=_now(),
            engine=engine_record(ready.identity),
            host=self._host,
            notes=(*ready.notes, *ineffective(self.plan, ready.identity)),
            reduced=None if run.control else self._artifacts.reduced_vocabulary,
        )

    def trial(
        self,
        request: Request,
        advice: Advice = OWN,
        *,
        rows: int | None = None,
        margins: bool = False,
        rounds: bool = False,
    ) -> Tried:
        """Run one request otherwise than the plan says, or look closer at it.

        advice: who proposes; `request.control` is not looked at. rows: see
        `power.runner.messages.Trial`. Raises as `generate` does.
        """
        clock = time.monotonic_ns()
        check_request(request, self.plan.sampling)
        run = self._run(replace(request, control=not advice.from_plan), clock)
        trial = Trial(run, advice, rows, margins, rounds)
        speculates = advice.kind != "none" and self.plan.speculation.strategy != "off"
        with self._talking("running a trial") as (worker, _):
            tried = self._follow(worker, trial, Tried, _ignore)
            reason = trial_contradiction(trial, tried)
            if reason is not None:
                worker.fail_protocol(reason)
            check_strategy("trial" if speculates else "off", tried.done.proposer_width)
        return tried

    def rows(
        self,
        ids: Sequence[int],
        cells: Sequence[int],
        span: int,
        shapes: Sequence[PassShape],
    ) -> RowsRead:
        """Read the rows of `span` positions behind each number of `cells`, in every shape.

        ids: at least the greatest of `cells` and `span` tokens. A pass may have as many
        rows as the plan's passes have at most (`most_rows`). Raises as `generate`
        does, KeyboardInterrupt on `cancel`, ValueError for what does not fit.
        """
        check_rows(self.plan, ids, cells, span, shapes)
        command = Rows(self._next(), tuple(ids), tuple(cells), span, tuple(shapes))
        return self._experiment("comparing rows", command, RowsRead, rows_contradiction)

    def curve(  # noqa: PLR0913 - what is timed
        self,
        ids: Sequence[int],
        cells: Sequence[int],
        counts: Sequence[int],
        *,
        widths: Sequence[int] = (),
        repeats: int,
        warmup: int = 1,
        intake: int = 0,
    ) -> CurveRead:
        """Time passes of each of `counts` rows, and proposals of up to each of `widths` tokens.

        intake: of a draft model also a proposal with so many tokens to take in first.
        Limits and errors as of `rows`; ids: one more token than a pass reaches.
        """
        command = Curve(
            self._next(),
            tuple(ids),
            tuple(cells),
            tuple(counts),
            tuple(widths),
            repeats,
            warmup,
            intake,
        )
        check_curve(self.plan, command)
        return self._experiment("timing passes", command, CurveRead, curve_contradiction)

    def _experiment(
        self,
        doing: str,
        command: _Asked,
        kind: type[_Answer],
        contradiction: Callable[[_Asked, _Answer], str | None],
    ) -> _Answer:
        with self._talking(doing) as (worker, _):
            worker.send(command)
            found = self._until(worker, kind)
            reason = contradiction(command, found)
            if reason is not None:
                worker.fail_protocol(reason)
        return found

    @contextmanager
    def _talking(self, doing: str) -> Iterator[tuple[WorkerProcess, Ready]]:
        """The live worker; it does not outlive an exchange that broke off."""
        if self._worker is None or self._ready is None:
            raise RuntimeError("the runner is not open: use it in a `with` block")
        self._worker.doing = doing
        try:
            yield self._worker, self._ready
        except PowerError as error:
            if error.exit_code > ExitCode.CANNOT_JUDGE:
                self._drop()
            raise
        except BaseException:
            self._drop()  # its next frames would answer a request that nobody follows
            raise

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _run(self, request: Request, clock_ns: int) -> Run:
        sampling = self.plan.sampling
        return Run(
            number=self._next(),
            text=request.text,
            special=request.special,
            plain=request.plain,
            sampling=sampling_config(
                self.plan, sampling.seed if request.seed is None else request.seed
            ),
            control=request.control,
            max_tokens=sampling.max_tokens if request.max_tokens is None else request.max_tokens,
            stop=request.stop,
            clock_ns=clock_ns,
        )

    def _follow(
        self,
        worker: WorkerProcess,
        command: Run | Trial,
        kind: type[_Ended],
        on_bytes: OnBytes,
        on_prefill: OnPrefill = _ignore,
    ) -> _Ended:
        """Send `command` and follow its run to an end, which has to be one that it can have."""
        run = command if isinstance(command, Run) else command.run
        emitted = bytearray()

        def emit(piece: bytes) -> None:
            emitted.extend(piece)
            on_bytes(piece)

        if self._cancelled:
            worker.send(Cancel(run.number))  # before it, so that no round of it runs
        worker.send(command)
        ended = self._until(worker, kind, emit, on_prefill)
        done = ended if isinstance(ended, Done) else ended.done
        reason = contradiction(run, done, bytes(emitted), self.plan.target.header.vocabulary)
        if reason is not None:
            worker.fail_protocol(reason)
        if held := done.text[len(emitted) :]:  # only by a cancelled request
            on_bytes(held)
        if done.finish is Finish.CANCELLED:
            self._cancelled = False
        return ended

    def _load(
        self, worker: WorkerProcess, target: tuple[int, ...], draft: tuple[int, ...]
    ) -> Ready:
        plan = self.plan
        worker.doing = "loading the model"
        worker.send(
            load_command(
                plan,
                backend=self._backend,
                target=target,
                draft=draft,
                threads=self._threads,
                extra=self._extra,
                beat_s=min(1.0, self._limit_s / 4),
            )
        )
        while True:
            match worker.receive():
                case Progress(fraction=fraction):
                    if self._progress is not None:
                        self._progress(fraction)
                case Ready() as ready if not self._cancelled:
                    break
                case Refused(diagnostics=diagnostics):
                    raise PowerError(diagnostics)
                case Ready() | None:  # cancelled; the worker may have been ready just before
                    raise KeyboardInterrupt
                case other:
                    worker.fail_protocol(f"`{other.type}` instead of `ready`")
        check_engine(plan.engine, ready.identity)
        check_required(plan.host.require, ready.identity.devices)
        return ready

    def _until(
        self,
        worker: WorkerProcess,
        kind: type[_Answer],
        emit: OnBytes | None = None,
        on_prefill: OnPrefill = _ignore,
    ) -> _Answer:
        """The worker's answer; with `emit`, of a request whose text comes before it."""
        until: float | None = None
        while True:
            if until is None and self._cancelled:
                if emit is None:
                    raise KeyboardInterrupt
                worker.send(Cancel(self._number))
                until = time.monotonic() + CANCEL_GRACE_S
            try:
                message = worker.receive(until)
            except TimeoutError:
                raise KeyboardInterrupt from None
            if isinstance(message, kind):
                return message
            match message:
                case Prefilled(tokens=tokens, total=total) if emit is not None:
                    on_prefill(tokens, total)
                case Emit(text=piece) if emit is not None:
                    emit(piece)
                case Refused(diagnostics=diagnostics):
                    raise PowerError(diagnostics)
                case None:
                    continue
                case other:
                    worker.fail_protocol(f"`{other.type}` in place of `{kind.__name__}`")

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()


def _now(*, earlier_ns: int = 0) -> str:
    at = datetime.now(UTC) - timedelta(microseconds=earlier_ns // 1000)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
