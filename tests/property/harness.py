"""The harness of the speculation properties: one case, run twice, compared in full.

A case is run by the scheduler and by `plain`, which decodes one token at a time
and shares nothing with the scheduler. Both see the same model and sampler.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from power.backends.interface import SamplingConfig
from power.backends.scripted.faults import Action, Faults, ScriptedError, Step
from power.backends.scripted.grammar import Grammar
from power.backends.scripted.model import ScriptedModel, State, Vocabulary
from power.backends.scripted.sampler import SamplerState, ScriptedSampler
from power.backends.scripted.target import ScriptedTarget, Trim
from power.speculation.controller import make_controller
from power.speculation.outcome import ControllerKind, Costs, Finish, Outcome, Settings
from power.speculation.scheduler import generate

VOCABULARY = Vocabulary(
    [b"a", b"b", b"c", b"ab", b"\xf0\x9f", b"\x98\x80", b"x.", b"", b"", b""], frozenset({8, 9})
)
A, B, C, AB, EMOJI_1, EMOJI_2, X_DOT, CONTROL, END, TURN_END = range(10)


UNIT = 1_000_000
COSTS = (  # of the rows of a pass by proposed tokens: up to 16 of them
    Costs(tuple(UNIT + 400_000 * k for k in range(17))),  # a lookup on a processor
    Costs(tuple(UNIT + 20_000 * k for k in range(17)), call=30_000, step=40_000),  # a head
    Costs((UNIT,) * 17),  # a fixed shape
    Costs(
        tuple(UNIT + 300_000 * k for k in range(17)), rebuild=90_000, refill=20_000
    ),  # a small model
    Costs(
        tuple(UNIT + 150_000 * (k + k % 3) for k in range(17)), step=700_000, prefill=30_000
    ),  # a large draft
)


@dataclass(frozen=True)
class Case:
    """One request. `left` is the room in the context behind the prompt but its anchor."""

    seed: int = 0
    prompt: tuple[int, ...] = (A, B, C)
    draft_max: int = 3
    snapshots: int = 3
    draft_min: int = 0
    recurrent: bool = False
    fixed: bool = False
    spare: int = 0  # rows of the batch beyond K + 2
    controller: ControllerKind = "fixed"
    proposer: str = "oracle"
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    stop: tuple[bytes, ...] = ()
    max_tokens: int = 8
    left: int = 64
    forced: tuple[tuple[int, int], ...] = ()  # (index of the emitted token, token)
    trim: Trim = "honest"
    cancel_at: int | None = None  # poll, from 0
    fault: tuple[Step, int] | None = None  # (step, call from 1)
    emit_fails_at: int | None = None  # emit, from 0

    @property
    def window(self) -> int:
        return min(self.snapshots, self.draft_max) if self.recurrent else self.draft_max

    @property
    def settings(self) -> Settings:
        return Settings(
            draft_max=self.draft_max,
            draft_min=self.draft_min,
            window=self.window,
            snapshots=self.snapshots,
            context=len(self.prompt) - 1 + self.left,
            controller=self.controller,
            costs=COSTS[self.seed % len(COSTS)],
        )

    def model(self) -> ScriptedModel:
        forced = {len(self.prompt) + index: token for index, token in self.forced}
        bias = [0.0] * VOCABULARY.size
        bias[END] = bias[TURN_END] = -3.0
        return ScriptedModel(VOCABULARY.size, seed=self.seed, bias=bias, forced=forced)

    def grammar(self) -> Grammar | None:
        text = self.sampling.grammar
        return None if text is None else Grammar(text, VOCABULARY)


@dataclass(frozen=True)
class Snapshot:
    """What must hold after a number of emitted tokens."""

    ids: tuple[int, ...]
    text: bytes
    sampler: SamplerState
    memory: State  # of the target: all but the anchor
    finish: Finish | None


def plain(case: Case) -> list[Snapshot]:
    """One token at a time: the state before the first token and after each one."""
    model = case.model()
    memory = model.read(case.prompt[:-1])
    anchor = case.prompt[-1]
    rows: list[Sequence[float]] = []
    sampler = ScriptedSampler(lambda _: rows[-1], case.sampling, case.grammar())
    full = memory.length >= case.settings.context
    trace = [Snapshot((), b"", sampler.state, memory, Finish.CONTEXT if full else None)]
    while trace[-1].finish is None:
        memory = model.step(memory, anchor)
        rows.append(model.logits(memory))
        anchor = sampler.sample(0)
        ids = (*trace[-1].ids, anchor)
        text = b"".join(VOCABULARY.piece(token) for token in ids)
        cuts = [text.find(stop) for stop in case.stop if stop in text]
        finish = None
        if VOCABULARY.is_end(anchor):
            finish = Finish.END
        elif cuts:
            finish, text = Finish.STOP, text[: min(cuts)]
        elif len(ids) == case.max_tokens:
            finish = Finish.LENGTH
        elif memory.length >= case.settings.context:
            finish = Finish.CONTEXT
        trace.append(Snapshot(ids, text, sampler.state, memory, finish))
    return trace


class Guide:
    """A proposer that knows what the reference will emit, and how to be wrong about it."""

    def __init__(self, future: Sequence[int], kind: str, max_width: int, faults: Faults) -> None:
        self.max_width = max_width
        self._future = future
        self._kind = kind
        self._faults = faults
        self._at = 0
        self._proposed: list[int] | None = None
        self.limits: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        self._faults.trip(Step.BEGIN)

    def checkpoint(self) -> object:
        return self._at

    def propose(self, limit: int) -> Sequence[int]:
        self._faults.trip(Step.PROPOSE)
        assert 1 <= limit <= self.max_width
        self.limits.append(limit)
        self._proposed = self._guess(limit)
        return list(self._proposed)

    def _guess(self, limit: int) -> list[int]:
        kind, at, size = self._kind, self._at, VOCABULARY.size
        ahead = [*self._future[at:], *[A] * 16]
        right = ahead[:limit]
        if kind.startswith("wrong-at-"):
            wrong = int(kind.removeprefix("wrong-at-"))
            return [(token + (i == wrong)) % size for i, token in enumerate(right)]
        half = limit // 2
        guesses = {
            "oracle": right,
            "too-long": ahead[: limit + 3],
            "empty": [],
            "short": right[: max(1, half)],
            "anti-oracle": [(token + 1) % size for token in right],
            "random": [(t + (31 * at + 7 * i) % 3) % size for i, t in enumerate(right)],
            "out-of-vocabulary": [*right[:half], (size, -1)[at % 2], *right[half:]][:limit],
        }
        return guesses[kind]

    def commit(self, emitted: Sequence[int], accepted: int) -> None:
        self._faults.trip(Step.FOLLOW)
        proposed = self._proposed or []
        assert list(emitted[:accepted]) == proposed[:accepted]
        assert 0 <= accepted <= len(emitted) <= accepted + 1
        self._at += len(emitted)
        self._proposed = None

    def restore(self, checkpoint: object) -> None:
        assert isinstance(checkpoint, int)
        self._at = checkpoint
        self._proposed = None

    @property
    def seen(self) -> int:
        return self._at


class WatchedTarget(ScriptedTarget):
    """Keeps a log of passes: rows of anchor and proposal, and how each one ended."""

    def __init__(self, *args: Any, window: int | None, **kwargs: Any) -> None:
        super().__init__(*args, window=window, **kwargs)
        self.limit = window
        self.rows: list[int] = []
        self.kept: list[int] = []
        self.replayed: list[int] = []  # rounds, from 0

    def evaluate(self, tokens: Sequence[int]) -> None:
        super().evaluate(tokens)
        self.rows.append(len(tokens))

    def commit(self, keep: int) -> bool:
        beyond = self.limit is not None and self.rows[-1] - keep > self.limit
        assert not beyond, "a trim that the engine is known not to be able to do"
        done = super().commit(keep)
        if done:
            self.kept.append(keep)
        return done

    def replay(self, checkpoint: object, tokens: Sequence[int]) -> None:
        super().replay(checkpoint, tokens)
        self.replayed.append(len(self.kept))
        self.kept.append(len(tokens))


class EmitError(Exception):
    """The reader of the text went away."""


@dataclass
class Run:
    """A case as the scheduler ran it."""

    outcome: Outcome
    target: WatchedTarget
    sampler: ScriptedSampler
    guide: Guide
    faults: Faults
    polls: int
    emitted: list[tuple[tuple[int, ...], bytes]]
    emit_failed: bool
    ticks: int


Generate = Callable[..., Outcome]


def run(
    case: Case,
    future: Sequence[int],
    using: Generate = generate,
    plan: Mapping[tuple[Step, int], Action] | None = None,
) -> Run:
    """Run `case` by the scheduler; `future` is what the reference emits.

    plan: more faults than the case's own.
    """
    faults = Faults({**({case.fault: Action.ERROR} if case.fault else {}), **(plan or {})})
    settings = case.settings
    target = WatchedTarget(
        case.model(),
        context=settings.context,
        window=case.window if case.recurrent else None,
        rows=case.draft_max + 1 if case.fixed else None,
        batch=case.draft_max + 2 + case.spare,
        trim=case.trim,
        faults=faults,
    )
    sampler = ScriptedSampler(target.row, case.sampling, case.grammar(), faults)
    guide = Guide(future, case.proposer, case.draft_max, faults)
    emitted: list[tuple[tuple[int, ...], bytes]] = []
    broken: list[bool] = []
    polls = itertools.count()
    ticks = itertools.count(1000)

    def emit(ids: Sequence[int], text: bytes) -> None:
        if len(emitted) == case.emit_fails_at:
            broken.append(True)
            raise EmitError
        emitted.append((tuple(ids), text))
        # Nothing is shown before its commit: the memory already holds all but the anchor.
        shown = sum(len(ids) for ids, _ in emitted)
        assert target.position == len(case.prompt) - 1 + shown

    outcome = using(
        prompt=case.prompt,
        target=target,
        proposer=guide,
        sampler=sampler,
        vocabulary=VOCABULARY,
        controller=make_controller(settings, guide),
        settings=settings,
        max_tokens=case.max_tokens,
        stop=case.stop,
        emit=emit,
        cancelled=lambda: next(polls) == case.cancel_at,
        clock=lambda: next(ticks),
    )
    span = next(ticks) - 1 - 1000
    return Run(outcome, target, sampler, guide, faults, next(polls), emitted, bool(broken), span)


def check(case: Case, using: Generate = generate) -> Run:
    """Everything that is promised of one request; AssertionError names a case that breaks it."""
    try:
        return _check(case, using)
    except AssertionError as error:
        error.add_note(f"in {case}")
        raise


def _check(case: Case, using: Generate) -> Run:
    trace = plain(case)
    done = run(case, trace[-1].ids, using)
    outcome = done.outcome
    assert outcome.ids == trace[-1].ids[: len(outcome.ids)]
    expected = trace[len(outcome.ids)]
    _check_finish(case, done, expected)
    assert outcome.text == expected.text
    assert done.sampler.state == expected.sampler
    if done.faults.calls[Step.PREFILL]:
        prefill_failed = case.fault == (Step.PREFILL, 1)
        assert done.target.state == (case.model().root() if prefill_failed else expected.memory)
    assert done.guide.seen == len(outcome.ids)
    assert all(limit >= max(1, case.draft_min) for limit in done.guide.limits)
    _check_stream(done)
    _check_counters(case, done)
    return done


def _check_finish(case: Case, done: Run, expected: Snapshot) -> None:
    outcome = done.outcome
    if case.cancel_at is not None and done.polls > case.cancel_at:
        assert (outcome.finish, outcome.error) == (Finish.CANCELLED, None)
    elif case.fault is not None and done.faults.calls[case.fault[0]] >= case.fault[1]:
        assert outcome.finish is Finish.FAILED
        assert isinstance(outcome.error, ScriptedError)
    elif done.emit_failed:
        assert outcome.finish is Finish.FAILED
        assert isinstance(outcome.error, EmitError)
    else:
        assert outcome.error is None
        assert outcome.finish is expected.finish
        assert done.faults.calls[Step.SAMPLE] == len(outcome.ids)


def _check_stream(done: Run) -> None:
    outcome = done.outcome
    assert tuple(token for ids, _ in done.emitted for token in ids) == outcome.ids
    shown = b"".join(text for _, text in done.emitted)
    if outcome.finish in {Finish.CANCELLED, Finish.FAILED}:
        assert outcome.text.startswith(shown)
    else:
        assert shown == outcome.text
    characters = "".join(text.decode(errors="replace") for _, text in done.emitted)
    assert characters == shown.decode(errors="replace")  # no round ends inside one


def _check_counters(case: Case, done: Run) -> None:
    counters, target, rounds = done.outcome.counters, done.target, len(done.emitted)
    assert counters.rounds == rounds
    lengths = [rows - 1 for rows in target.rows[:rounds]]
    assert counters.drafted == sum(lengths)
    assert counters.target_only_rounds == lengths.count(0)
    assert all(length <= case.draft_max for length in lengths)
    assert counters.drafted_by_position == [
        sum(length > i for length in lengths) for i in range(case.draft_max)
    ]
    assert sum(counters.accepted_by_position) == counters.accepted <= counters.drafted
    assert len(done.outcome.ids) - counters.accepted in {rounds, rounds - 1}
    assert sum(count for _, count in counters.widths) == rounds
    assert sum(counters.phases_ns.values()) == done.ticks
    if done.outcome.finish in {Finish.CANCELLED, Finish.FAILED}:
        return
    assert counters.replays == len(target.replayed)
    if case.trim == "honest" and not (case.recurrent and case.fixed):
        rejected = [rows - keep for rows, keep in zip(target.rows, target.kept, strict=True)]
        beyond = [i for i, count in enumerate(rejected) if count > case.window]
        assert target.replayed == beyond
        assert len(beyond) <= 1
        assert counters.guard_round == (beyond[0] + 1 if beyond else None)
        assert counters.clamped_width == (case.snapshots if beyond else None)
