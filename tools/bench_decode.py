"""What Power adds to a bare decode loop, as ratios within one process.

    python -m tools.bench_decode [MODEL.gguf] [--tokens 96] [--rounds 8] [--threads N]

Two arms on one context, alternated: `off` is a whole request through the scheduler,
`bare` is the engine's decode and an argmax with nothing else. Speed is the best of the
rounds of each arm, since whatever else the machine does only ever adds time.
Goals: off at least 0.98 of bare; Python outside engine calls under 1% of a round.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from power.backends.interface import Engine, SamplingConfig
from power.backends.llamacpp.context import Context
from power.backends.llamacpp.library import native
from power.speculation.outcome import Phase
from tools.harness import ARTIFACTS, opened, prompts, run

DEFAULT = ARTIFACTS / "SmolLM2-135M-Instruct.Q4_1.gguf"


class Stopwatch:
    """Adds up the time spent inside one method of the engine's context."""

    def __init__(self) -> None:
        self.spent = 0

    def around(self, function: Any) -> Any:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter_ns()
            try:
                return function(*arguments, **named)
            finally:
                self.spent += time.perf_counter_ns() - start

        return timed


def off(engine: Engine, ids: list[int], tokens: int) -> tuple[float, int, int]:
    """Tokens a second of the rounds of one request, rounds, and their time in ns."""
    counters = run(engine, ids, max_tokens=tokens, control=True).counters
    spent = sum(counters.phases_ns.values()) - counters.phases_ns[Phase.PREFILL]
    return counters.rounds / spent * 1e9, counters.rounds, spent


def bare(engine: Engine, ids: list[int], tokens: int) -> float:
    """Tokens a second of decode and argmax alone, on the same context."""
    session = engine.session(SamplingConfig(), control=True)
    session.target.prefill(ids[:-1])
    context: Context = session.target._context  # type: ignore[attr-defined]  # noqa: SLF001
    token, position = ids[-1], len(ids) - 1
    start = time.perf_counter_ns()
    for _ in range(tokens):
        token = int(context.decode((token,), position, outputs=1)[0].argmax())
        position += 1
    return tokens / (time.perf_counter_ns() - start) * 1e9


def python_share(engine: Engine, ids: list[int], tokens: int) -> tuple[float, float]:
    """Python outside engine calls: microseconds a round, and its share of the round.

    An engine call is a function of the native library, and the argmax over its row.
    """
    lib, watch = native(), Stopwatch()
    names = [
        "llama_decode",
        "llama_get_logits",
        "llama_memory_seq_rm",
        "llama_memory_seq_pos_max",
        "llama_synchronize",
        "llama_token_to_piece",
    ]
    saved = {name: getattr(lib, name) for name in names}
    session = engine.session(SamplingConfig(), control=True)
    session.sampler.sample = watch.around(session.sampler.sample)  # type: ignore[method-assign]
    try:
        for name, function in saved.items():
            setattr(lib, name, watch.around(function))
        counters = run(engine, ids, max_tokens=tokens, session=session).counters
    finally:
        for name, function in saved.items():
            setattr(lib, name, function)
    prefill = counters.phases_ns[Phase.PREFILL]
    whole = sum(counters.phases_ns.values()) - prefill
    outside = whole - (watch.spent - prefill)
    return outside / counters.rounds / 1e3, outside / whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, nargs="?", default=DEFAULT)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    with opened(options.model, threads=options.threads) as engine:
        ids = next(p for p in prompts() if p.name == "prose-sea").ids(engine)
        best_off = best_bare = 0.0
        least = (float("inf"), 1.0)
        for _ in range(options.rounds):
            best_off = max(best_off, off(engine, ids, options.tokens)[0])
            best_bare = max(best_bare, bare(engine, ids, options.tokens))
            least = min(least, python_share(engine, ids, options.tokens))
    print(
        f"{options.model.name}, {options.tokens} tokens, best of {options.rounds} alternated rounds"
    )
    print(f"off  {best_off:8.2f} tokens/s")
    print(f"bare {best_bare:8.2f} tokens/s")
    print(f"off / bare: {best_off / best_bare:.3f} (goal 0.98)")
    print(f"python outside engine calls: {least[0]:.0f} us a round, {least[1]:.2%} (goal 1%)")


if __name__ == "__main__":
    main()
