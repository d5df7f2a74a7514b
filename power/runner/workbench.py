"""Experiments on an open engine, in the worker: runs watched, rows compared, passes timed.

They speak the protocols of `power.backends.interface` alone, so that every engine
runs them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from power.backends.errors import EngineError
from power.backends.interface import Engine, SamplingConfig, Session, SessionTarget
from power.backends.none import NoProposer
from power.backends.told import TOLD, Recorder
from power.runner.messages import (
    Curve,
    CurveRead,
    Done,
    PassShape,
    RowBits,
    Rows,
    RowsRead,
    Timed,
    Trial,
    Tried,
    Walk,
)
from power.runner.observed import (
    LoggedController,
    LoggedProposer,
    LoggedTarget,
    MarginSampler,
    RoundLog,
    bits,
)
from power.speculation.controller import Controller
from power.speculation.protocols import HasBacklog, Proposer, Sampler

_SETTLING = 3
"""Passes of one row until their time no longer shows what came before them."""

NATURAL = 0  # rows of a session whose passes have the tokens they are given
Ahead = Callable[[int], None]
"""Called before native calls: with the tokens of a prompt that comes next, or 0 for a pass."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the scheduler is given for one request."""

    target: SessionTarget
    proposer: Proposer
    sampler: Sampler
    controller: Controller

    @classmethod
    def of(cls, session: Session, controller: Controller) -> Self:
        """Those of the session itself."""
        return cls(session.target, session.proposer, session.sampler, controller)


class Trying:
    """One trial: its parts, and afterwards what was seen. draft_max: K of the plan."""

    def __init__(self, trial: Trial, draft_max: int) -> None:
        self._trial = trial
        self._draft_max = draft_max
        self._log = RoundLog(time.monotonic_ns)
        self._sampler: MarginSampler | None = None
        self._recorder: Recorder | None = None

    def parts(self, session: Session, controller: Controller) -> Parts:
        """The parts of the trial's request."""
        target, sampler = session.target, session.sampler
        proposer = self._proposer(session)
        if self._trial.margins:
            sampler = self._sampler = MarginSampler(sampler, target)
        if self._trial.rounds:
            log = self._log
            target, proposer = LoggedTarget(target, log), LoggedProposer(proposer, log)
            controller = LoggedController(controller, log)
        return Parts(target, proposer, sampler, controller)

    def _proposer(self, session: Session) -> Proposer:
        advice = self._trial.advice
        match advice.kind:
            case "own":
                return session.proposer
            case "none":
                return NoProposer()
            case "recording":
                self._recorder = Recorder(session.proposer)
                return self._recorder
            case told:
                size = session.target.vocabulary_size
                return TOLD[told](advice.ids, self._draft_max, size, advice.seed)

    def tried(self, done: Done) -> Tried:
        """What the trial shows."""
        return Tried(
            done,
            margins=() if self._sampler is None else tuple(self._sampler.margins),
            proposals=() if self._recorder is None else tuple(self._recorder.proposals),
            rounds=tuple(self._log.rounds),
        )


def read_rows(engine: Engine, rows: Rows, ahead: Ahead) -> RowsRead:
    """Every walk of `rows`."""
    walks = []
    for cells in rows.cells:
        tokens = rows.ids[cells : cells + rows.span]
        ahead(cells)
        target = _behind(engine, rows.ids[:cells]).target
        start = target.checkpoint()
        for index, shape in enumerate(rows.shapes):
            walks.append(Walk(cells, index, tuple(_walk(target, tokens, shape, ahead))))
            ahead(cells)  # what a recurrent target evaluates again
            target.restore(start)
    return RowsRead(rows.number, tuple(walks))


def _behind(engine: Engine, prompt: Sequence[int], *, control: bool = True) -> Session:
    """A session that holds `prompt`, at the natural shape."""
    session = engine.session(SamplingConfig(), control=control, rows=NATURAL)
    session.target.prefill(prompt)
    return session


def _walk(
    target: SessionTarget, tokens: Sequence[int], shape: PassShape, ahead: Ahead
) -> Iterator[RowBits]:
    for start in range(0, len(tokens), shape.real):
        real = tokens[start : start + shape.real]
        ahead(0)
        target.evaluate([*real, *[shape.padding] * (shape.rows - len(real))])
        yield from (bits(target.row(index)) for index in range(len(real)))
        last = start + shape.real >= len(tokens)
        if not last and not target.commit(shape.real):
            raise EngineError("decode", f"the target cannot drop the padding of {shape}")


def read_curve(engine: Engine, curve: Curve, ahead: Ahead) -> CurveRead:
    """Every time of `curve`, by the wall clock of this host."""
    passes: list[Timed] = []
    drafts: list[Timed] = []
    intakes: list[Timed] = []
    for cells in curve.cells:
        ahead(cells)
        session = _behind(engine, curve.ids[:cells])
        passes += _passes(session, cells, curve, ahead)
        if curve.widths:
            ahead(2 * cells)  # the draft's memory too
            session = _behind(engine, curve.ids[:cells], control=False)
            session.proposer.begin(curve.ids[: cells + 1])
            drafts += _drafts(session, cells, curve, ahead)
            intakes += _intakes(session, cells, curve, ahead)
    return CurveRead(curve.number, tuple(passes), tuple(drafts), tuple(intakes))


def _passes(session: Session, cells: int, curve: Curve, ahead: Ahead) -> Iterator[Timed]:
    """Each size behind a pass of one row and behind one of its own, then one row behind it."""
    spent: dict[int, list[tuple[int, ...]]] = {count: [] for count in curve.counts}
    for _ in range(curve.warmup + curve.repeats):
        for count in curve.counts:
            before = _plain(session, cells, curve, ahead)
            passes = (_pass(session, cells, curve, ahead, rows) for rows in (count, count, 1))
            spent[count].append((before, *passes))
    for count in curve.counts:
        plain, first, again, back = zip(*spent[count][curve.warmup :], strict=True)
        yield Timed(cells, count, 0, again, plain, first, back)


def _plain(session: Session, cells: int, curve: Curve, ahead: Ahead) -> int:
    """The time of a pass of one row behind others like it, in ns."""
    for _ in range(_SETTLING):
        _pass(session, cells, curve, ahead, 1)
    return _pass(session, cells, curve, ahead, 1)


def _pass(session: Session, cells: int, curve: Curve, ahead: Ahead, rows: int) -> int:
    target = session.target
    ahead(0)
    checkpoint = target.checkpoint()
    start = time.perf_counter_ns()
    target.evaluate(curve.ids[cells : cells + rows])
    took = time.perf_counter_ns() - start
    target.restore(checkpoint)
    return took


def _drafts(session: Session, cells: int, curve: Curve, ahead: Ahead) -> Iterator[Timed]:
    proposer = session.proposer
    spent: dict[int, list[tuple[int, int]]] = {width: [] for width in curve.widths}
    drafted = dict.fromkeys(curve.widths, 0)
    for repeat in range(curve.warmup + curve.repeats):
        for width in _in_turn(curve.widths, repeat):
            plain = _plain(session, cells, curve, ahead)
            ahead(0)
            checkpoint = proposer.checkpoint()
            start = time.perf_counter_ns()
            drafted[width] = len(proposer.propose(width))
            spent[width].append((time.perf_counter_ns() - start, plain))
            proposer.restore(checkpoint)
    for width, took in spent.items():
        ns, plains = zip(*took[curve.warmup :], strict=True)
        yield Timed(cells, width, drafted[width], ns, plains)


def _intakes(session: Session, cells: int, curve: Curve, ahead: Ahead) -> Iterator[Timed]:
    """Proposals of one token, each with a backlog; none of a proposer that has none."""
    proposer = session.proposer
    if not (curve.intake and isinstance(proposer, HasBacklog)):
        return
    behind = cells + 1
    ns: list[int] = []
    plains: list[int] = []
    for _ in range(curve.warmup + curve.repeats):
        plains.append(_plain(session, cells, curve, ahead))
        ahead(curve.intake)
        checkpoint = proposer.checkpoint()
        # The last one is the anchor, and what was the anchor has been evaluated.
        proposer.commit(curve.ids[behind : behind + curve.intake + 1], 0)
        start = time.perf_counter_ns()
        drafted = len(proposer.propose(1))
        ns.append(time.perf_counter_ns() - start)
        proposer.restore(checkpoint)
    after = curve.warmup
    yield Timed(cells, curve.intake, drafted, tuple(ns[after:]), tuple(plains[after:]))


def _in_turn(sizes: Sequence[int], repeat: int) -> Sequence[int]:
    """`sizes`, every other time backwards: what comes after a long pass is not always short."""
    return sizes[::-1] if repeat % 2 else sizes
