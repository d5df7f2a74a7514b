"""Cases by the thousand: every boundary of a round at every offset.

Each sweep turns what its name says through all values, for every shape and the
proposers that matter to it, and turns everything else along with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from power.backends.interface import SamplingConfig
from power.backends.scripted.faults import Step
from power.speculation.outcome import ControllerKind
from tests.property.harness import AB, EMOJI_1, EMOJI_2, END, TURN_END, X_DOT, A, B, C, Case

SAMPLINGS = (
    SamplingConfig(),
    SamplingConfig(temperature=0.7, seed=3),
    SamplingConfig(temperature=1.0, top_k=4, top_p=0.9, repeat_penalty=1.3, repeat_last_n=3),
    SamplingConfig(temperature=2.0, min_p=0.05, typical_p=0.8, seed=9),
    SamplingConfig(repeat_penalty=1.5, repeat_last_n=4),
    SamplingConfig(temperature=0.5, grammar='root ::= ("a" | "b" "c"? | "x" ".")*'),
)
STOPS: tuple[tuple[bytes, ...], ...] = (
    (),
    (b"bca",),
    (b"a\xf0\x9f\x98\x80", b"cc"),
    (b"\x9f\x98", b".a"),
    (b".", b"x."),
)
CONTROLLERS: tuple[ControllerKind, ...] = ("fixed", "adaptive", "cost")
PROPOSERS = (
    "oracle",
    "anti-oracle",
    "random",
    "wrong-at-0",
    "wrong-at-1",
    "wrong-at-3",
    "empty",
    "short",
    "too-long",
    "out-of-vocabulary",
)


def _shapes() -> Iterator[Case]:
    """Every K to 4 with every S to K + 1, and (7, 6), (7, 7); each rule and controller."""
    pairs = [(k, s) for k in range(1, 5) for s in range(1, k + 2)] + [(7, 6), (7, 7)]
    for (k, s), recurrent, kind in itertools.product(pairs, (True, False), CONTROLLERS):
        yield Case(draft_max=k, snapshots=s, recurrent=recurrent, controller=kind)
    yield Case(draft_max=0, snapshots=1, proposer="empty")


def _varied(cases: Iterator[Case]) -> Iterator[Case]:
    """Turn everything that a sweep does not turn itself, each at its own pace."""
    for i, case in enumerate(cases):
        yield replace(
            case,
            seed=i,
            sampling=SAMPLINGS[i % len(SAMPLINGS)],
            stop=case.stop or STOPS[(i // 5) % len(STOPS)],
            prompt=((A, B, C), (A,), (A, B, A, B, X_DOT))[(i // 7) % 3],
            draft_min=(0, 0, 1, 2)[(i // 11) % 4],
            fixed=(i // 13) % 3 == 1,
            spare=(i // 3) % 3,
            trim="refuse" if (i // 17) % 7 == 3 else "honest",
        )


def _turned(kinds: Sequence[str] = PROPOSERS) -> Iterator[Case]:
    for shape, kind in itertools.product(_shapes(), kinds):
        yield replace(shape, proposer=kind)


def lengths() -> Iterator[Case]:
    """max_tokens from 1 to K + 3."""
    return _varied(
        replace(case, max_tokens=n) for case in _turned() for n in range(1, case.draft_max + 4)
    )


def contexts() -> Iterator[Case]:
    """Room for 0 to K + 2 tokens in the context: none at all to one beyond a full round."""
    return _varied(
        replace(case, left=left, max_tokens=40)
        for case in _turned(("oracle", "wrong-at-1", "random", "short", "too-long"))
        for left in range(case.draft_max + 3)
    )


def ends() -> Iterator[Case]:
    """Each end-of-generation token at every offset of the first two rounds."""
    return _varied(
        replace(case, forced=((index, end),), max_tokens=24)
        for case in _turned(("oracle", "wrong-at-1", "random"))
        for index in range(case.draft_max + 3)
        for end in (END, TURN_END)
    )


def stops() -> Iterator[Case]:
    """A stop sequence of one to four tokens at every offset of the first two rounds."""
    written: tuple[tuple[bytes, tuple[int, ...]], ...] = (
        (b"x", (X_DOT,)),
        (b"cab", (C, AB)),
        (b"\xf0\x9f\x98\x80", (EMOJI_1, EMOJI_2)),
        (b".aca", (X_DOT, A, C, AB)),
    )
    return _varied(
        replace(
            case,
            stop=(stop, b"never"),
            forced=tuple((index + i, token) for i, token in enumerate(tokens)),
            max_tokens=24,
        )
        for case in _turned(("oracle", "wrong-at-1"))
        for index in range(0, case.draft_max + 3, 2)
        for stop, tokens in written
    )


def cancels() -> Iterator[Case]:
    """A cancel at each poll of the first rounds: before, between and after all steps."""
    polls = 6 * 3 + 2
    return _varied(
        replace(case, cancel_at=poll, max_tokens=24)
        for case in _turned(("oracle", "wrong-at-1"))
        for poll in range(polls)
    )


def faults() -> Iterator[Case]:
    """An engine error at each step, in the first rounds and at the start."""
    once = [(Step.PREFILL, 1), (Step.BEGIN, 1), (Step.REPLAY, 1)]
    steps = (Step.CHECKPOINT, Step.PROPOSE, Step.PASS, Step.SAMPLE, Step.COMMIT, Step.FOLLOW)
    points = once + [(step, call) for step in steps for call in (1, 2, 3)]
    return _varied(
        replace(case, fault=point, max_tokens=24)
        for case in _turned(("wrong-at-1", "anti-oracle"))
        for point in points
        if case.snapshots <= case.draft_max
    )


def readers() -> Iterator[Case]:
    """The reader of the text fails at one of the first rounds."""
    return _varied(
        replace(case, emit_fails_at=at, max_tokens=24)
        for case in _turned(("oracle", "wrong-at-1", "empty"))
        for at in range(3)
    )


SWEEPS: dict[str, Callable[[], Iterator[Case]]] = {
    sweep.__name__: sweep for sweep in (lengths, contexts, ends, stops, cancels, faults, readers)
}
