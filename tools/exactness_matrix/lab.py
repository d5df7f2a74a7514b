"""Engines on fixtures, and whole requests through the scheduler, in this process."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from power.backends.interface import Engine, EngineConfig, SamplingConfig
from power.backends.llamacpp import BACKEND
from power.backends.told import TOLD
from power.speculation.outcome import Finish, Outcome, Settings
from power.speculation.protocols import Proposer
from tools.exactness_matrix.cases import Pair, Shape, controllers, shapes
from tools.harness import request

CONTEXT = 512
SIZE = 320
"""Tokens that made-up proposers propose from; no fixture has fewer."""
SEEDS = {"wrong-at": 11, "random": 7}
"""Of the proposers that draw at random."""
SAMPLERS = {
    "greedy": SamplingConfig(),
    "sampled": SamplingConfig(temperature=3.0, top_k=20, seed=42),  # their logits are far apart
}


@dataclass
class Tally:
    """What came of the runs of one row of the table."""

    runs: int = 0
    equal: int = 0
    drafted: dict[str, int] = field(default_factory=dict)  # by sampler
    accepted: dict[str, int] = field(default_factory=dict)
    replays: int = 0
    most_replays: int = 0  # of one request
    forks: list[str] = field(default_factory=list)

    def add(self, sampler: str, outcome: Outcome, expected: Outcome, what: str) -> None:
        """Count one run against its control."""
        counters = outcome.counters
        self.runs += 1
        self.drafted[sampler] = self.drafted.get(sampler, 0) + counters.drafted
        self.accepted[sampler] = self.accepted.get(sampler, 0) + counters.accepted
        self.replays += counters.replays
        self.most_replays = max(self.most_replays, counters.replays)
        if (outcome.ids, outcome.finish) == (expected.ids, expected.finish):
            self.equal += 1
        else:
            self.forks.append(f"{what}: {_fork(outcome, expected)}")

    def acceptance(self, sampler: str) -> float | None:
        """Accepted / drafted, None where nothing was drafted."""
        drafted = self.drafted.get(sampler, 0)
        return self.accepted[sampler] / drafted if drafted else None


@dataclass(frozen=True, slots=True)
class Key:
    """One row of the table; K and S are in `widths`."""

    pair: Pair
    head: str
    adaptive: bool
    shape: str


def _fork(outcome: Outcome, expected: Outcome) -> str:
    if outcome.error is not None:
        return f"failed: {outcome.error}"
    found, wanted = len(outcome.ids), len(expected.ids)
    both = zip(outcome.ids, expected.ids, strict=False)
    at = next((i for i, (a, b) in enumerate(both) if a != b), min(found, wanted))
    return f"differs at token {at} of {found}; {wanted} were expected"


def prompts(count: int, vocabulary: int) -> list[list[int]]:
    """Token ids: one token alone, then longer ones, every other with a part that repeats."""
    rng = random.Random(5)
    out = [[vocabulary // 2]]
    for index in range(1, count):
        tokens = [rng.randrange(3, vocabulary - 1) for _ in range(9 * index)]
        out.append(tokens * 2 if index % 2 else tokens)
    return out[:count]


@contextmanager
def opened(shape: Shape, files: Mapping[str, Path]) -> Iterator[Engine]:
    """The engine of `shape`."""
    pair = shape.pair
    fds = [os.open(files[name], os.O_RDONLY) for name in (pair.target, pair.draft) if name]
    try:
        engine = BACKEND.open(
            EngineConfig(
                target=tuple(fds[:1]),
                draft=tuple(fds[1:]),
                strategy=pair.named,
                draft_max=shape.k,
                snapshots=min(shape.s, shape.k),
                fr_rule=shape.fr_rule,
                fr_vocab_size=shape.fr_rows,
                context=CONTEXT,
                batch=shape.k + 2,
                rows=shape.rows,
                prefill_batch=64,
                threads=1,
            ),
            lambda _fraction: None,
        )
    finally:
        for fd in fds:
            os.close(fd)
    try:
        yield engine
    finally:
        engine.close()


def run(  # noqa: PLR0913 - the parts of one request
    engine: Engine,
    shape: Shape,
    prompt: Sequence[int],
    sampling: SamplingConfig,
    *,
    max_tokens: int,
    adaptive: bool = False,
    control: bool = False,
    proposer: Proposer | None = None,
) -> Outcome:
    """One request; `proposer` in place of the engine's own."""
    narrow = min(shape.s, shape.k)
    settings = Settings(
        draft_max=shape.k,
        draft_min=0,
        window=narrow if shape.pair.recurrent else shape.k,
        snapshots=narrow,
        context=CONTEXT,
        controller="adaptive" if adaptive else "fixed",
    )
    session = engine.session(sampling, control=control or proposer is not None)
    return request(
        engine,
        session,
        prompt,
        settings,
        max_tokens=max_tokens,
        clock=iter(range(1 << 62)).__next__,
        proposer=proposer,
    )


class Controls:
    """Runs of the target alone, one engine a target and shape, without any draft.

    That engine is another one than the draft's: what the draft adds to the target's
    graph may not show either.
    """

    def __init__(self, files: Mapping[str, Path], *, count: int, max_tokens: int) -> None:
        self.files = files
        self.max_tokens = max_tokens
        self._count = count
        self._known: dict[Shape, dict[tuple[str, int], tuple[list[int], Outcome]]] = {}

    def of(self, shape: Shape) -> dict[tuple[str, int], tuple[list[int], Outcome]]:
        """(sampler, number of the prompt) -> prompt and outcome, at the shape of `shape`."""
        pair = shape.pair
        alone = Shape(
            Pair(pair.target, "prompt-lookup", pair.recurrent),
            shape.k,
            shape.s if pair.recurrent else shape.k,
            shape.rows,
        )
        if alone not in self._known:
            self._known[alone] = self._run(alone)
        return self._known[alone]

    def _run(self, alone: Shape) -> dict[tuple[str, int], tuple[list[int], Outcome]]:
        out = {}
        with opened(alone, self.files) as engine:
            for sampler, sampling in SAMPLERS.items():
                for index, prompt in enumerate(prompts(self._count, SIZE)):
                    outcome = run(
                        engine, alone, prompt, sampling, max_tokens=self.max_tokens, control=True
                    )
                    if outcome.finish is Finish.FAILED:
                        raise outcome.error or RuntimeError("the control run failed")
                    out[sampler, index] = prompt, outcome
        return out


def measure(pair: Pair, controls: Controls) -> dict[Key, Tally]:
    """Every run of `pair`, each against the control run of its shape."""
    table: dict[Key, Tally] = {}
    make, seed = TOLD.get(pair.strategy), SEEDS.get(pair.strategy, 0)
    for shape in filter(controllers, shapes(pair)):
        expected = controls.of(shape)
        with opened(shape, controls.files) as engine:
            for adaptive in controllers(shape):
                key = Key(pair, _head(shape), adaptive, "fixed" if shape.rows else "natural")
                tally = table.setdefault(key, Tally())
                for (sampler, index), (prompt, control) in expected.items():
                    told = None if make is None else make(control.ids, shape.k, SIZE, seed)
                    outcome = run(
                        engine,
                        shape,
                        prompt,
                        SAMPLERS[sampler],
                        max_tokens=controls.max_tokens,
                        adaptive=adaptive,
                        proposer=told,
                    )
                    what = f"K{shape.k}/S{shape.s} {sampler} prompt {index}"
                    tally.add(sampler, outcome, control, what)
    return table


def _head(shape: Shape) -> str:
    return "full" if shape.fr_rows is None else f"{shape.fr_rule} {shape.fr_rows}"
