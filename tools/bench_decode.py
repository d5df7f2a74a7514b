"""What Power adds to a bare decode loop, as ratios within one process.

    python -m tools.bench_decode [MODEL.gguf] [--tokens 96] [--rounds 8] [--threads N]

Two arms on one context, alternated, and which of them goes first too; both have to
write the same tokens:
  off    a whole request through the scheduler; its rounds are timed, not its prompt
  bare   the engine's decode and an argmax, as written against llama-cpp-python by hand
Speed is the best of the rounds of each arm, since whatever else the machine does only
ever adds time. The Python of a round is timed by a clock that stands still during
the engine's calls: functions of the native library, and the argmax over a row.
Goals: off at least 0.98 of bare; Python outside engine calls under 1% of a round.
Exits 1 when one is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from power.backends.interface import Engine, SamplingConfig
from power.backends.llamacpp import sampler
from power.backends.llamacpp.context import Context
from power.backends.llamacpp.library import native
from power.runner.host import usable_cores
from power.speculation.outcome import Outcome, Phase, Settings
from tools.harness import ARTIFACTS, CONTEXT, opened, prompts, request

DEFAULT = ARTIFACTS / "SmolLM2-135M-Instruct.Q4_1.gguf"
SPEED, SHARE = 0.98, 0.01
CALLS = ("_llama_decode", "_logits_of", "_llama_pos_max")
"""The native functions that a round of `off` calls, as a context holds them."""

_now = time.perf_counter_ns


def _context_of(session: Any) -> Context:
    context: Context = session.target._context  # noqa: SLF001 - the engine's one context
    return context


def _request(engine: Engine, ids: list[int], tokens: int, clock: Callable[[], int]) -> Outcome:
    outcome = request(
        engine,
        engine.session(SamplingConfig(), control=True),
        ids,
        Settings(draft_max=0, draft_min=0, window=0, snapshots=0, context=CONTEXT),
        max_tokens=tokens,
        clock=clock,
    )
    if outcome.error is not None:
        raise outcome.error
    return outcome


def _a_round(outcome: Outcome) -> float:
    """Nanoseconds of a round by the request's clock, its prompt left out."""
    counters = outcome.counters
    spent = sum(counters.phases_ns.values()) - counters.phases_ns[Phase.PREFILL]
    return spent / counters.rounds


def off(engine: Engine, ids: list[int], tokens: int) -> tuple[list[int], float]:
    """The tokens of one request, and the nanoseconds of a round."""
    outcome = _request(engine, ids, tokens, _now)
    return list(outcome.ids), _a_round(outcome)


def bare(engine: Engine, ids: list[int], tokens: int) -> tuple[list[int], float]:
    """The same with nothing between two calls of the engine but what they need."""
    lib = native()
    session = engine.session(SamplingConfig(), control=True)
    session.target.prefill(ids[:-1])
    handle, size = _context_of(session).handle, session.target.vocabulary_size
    batch = lib.llama_batch_init(1, 0, 1)
    batch.n_tokens = batch.n_seq_id[0] = batch.logits[0] = 1
    batch.seq_id[0][0] = 0
    out: list[int] = []
    token, row = ids[-1], None
    start = _now()
    for position in range(len(ids) - 1, len(ids) - 1 + tokens):
        batch.token[0], batch.pos[0] = token, position
        if lib.llama_decode(handle, batch):
            raise RuntimeError("the engine did not decode")
        logits = lib.llama_get_logits(handle)
        if row is None:
            row = np.ctypeslib.as_array(logits, (size,))
        token = int(row.argmax())
        out.append(token)
    spent = _now() - start
    lib.llama_batch_free(batch)
    return out, spent / tokens


class Stopwatch:
    """A clock that stands still inside the functions that it is put around."""

    def __init__(self) -> None:
        self._inside = 0

    def __call__(self) -> int:
        return _now() - self._inside

    def around(self, function: Any) -> Any:
        def timed(*arguments: Any) -> Any:
            start = _now()
            result = function(*arguments)
            self._inside += _now() - start
            return result

        return timed


@contextmanager
def watched(engine: Engine) -> Iterator[Stopwatch]:
    """A clock that stands still in the engine's calls, while the block runs."""
    watch = Stopwatch()
    context: Any = _context_of(engine.session(SamplingConfig(), control=True))
    calls = [(context, name) for name in CALLS] + [(sampler, "greedy")]
    saved = [(holder, name, getattr(holder, name)) for holder, name in calls]
    try:
        for holder, name, function in saved:
            setattr(holder, name, watch.around(function))
        yield watch
    finally:
        for holder, name, function in saved:
            setattr(holder, name, function)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, nargs="?", default=DEFAULT)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=usable_cores())
    options = parser.parse_args()
    best = {off: float("inf"), bare: float("inf")}
    python = float("inf")
    with opened(options.model, threads=options.threads) as engine:
        ids = next(p for p in prompts() if p.name == "prose-sea").ids(engine)
        for turn in range(options.rounds):
            order = (off, bare) if turn % 2 else (bare, off)
            written = []
            for arm in order:
                tokens, spent = arm(engine, ids, options.tokens)
                best[arm] = min(best[arm], spent)
                written.append(tokens)
            if written[0] != written[1]:
                raise SystemExit("the arms wrote different tokens: nothing to compare")
            with watched(engine) as watch:
                python = min(python, _a_round(_request(engine, ids, options.tokens, watch)))
    speed, share = best[bare] / best[off], python / best[off]
    print(f"{options.model.name}, {options.tokens} tokens, best of {options.rounds} rounds")
    for arm in (off, bare):
        print(
            f"{arm.__name__:4} {1e9 / best[arm]:8.2f} tokens/s {best[arm] / 1e3:10.1f} us a token"
        )
    print(f"off / bare: {speed:.3f} (goal {SPEED})")
    outside = f"{python / 1e3:.0f} us a round, {share:.2%}"
    print(f"python outside engine calls: {outside} (goal {SHARE:.0%})")
    return int(speed < SPEED or share >= SHARE)


if __name__ == "__main__":
    sys.exit(main())
