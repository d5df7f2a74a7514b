"""What a pass costs by its rows, with weights repacked and in their plain layout.

    python -m tools.bench_repack [MODEL.gguf] [--rounds 8] [--threads N]

Both layouts are loaded in one process and take turns; the best of the rounds counts.
An engine that was built with AMX does not repack (docs/adr/0005): there this says so.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from power.backends.interface import Engine, SamplingConfig
from power.diagnostics import PowerError, as_text
from power.runner.host import usable_cores
from tools.harness import ARTIFACTS, opened, prompts

DEFAULT = ARTIFACTS / "SmolLM2-135M-Instruct.Q4_1.gguf"
ROWS = (1, 2, 3, 4, 6, 8, 12)
CELLS = 64
PREFILL = 256
"""Tokens of the prompt whose evaluation is timed too."""


def costs(engine: Engine, ids: list[int]) -> dict[str, float]:
    """Milliseconds of a pass of each row count behind `CELLS` tokens, and of a prompt."""
    found = {}
    session: Any = engine.session(SamplingConfig(), control=True)
    session.target.prefill(ids[:CELLS])
    for rows in ROWS:
        start = time.perf_counter()
        session.target.evaluate(ids[CELLS : CELLS + rows])
        found[f"{rows} rows"] = (time.perf_counter() - start) * 1e3
        session.target.restore(CELLS)
    session = engine.session(SamplingConfig(), control=True)
    start = time.perf_counter()
    session.target.prefill(ids[:PREFILL])
    found[f"prompt {PREFILL}"] = (time.perf_counter() - start) * 1e3
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, nargs="?", default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=usable_cores())
    options = parser.parse_args()
    shape = {"rows": None, "draft_max": max(ROWS) - 1, "threads": options.threads}
    try:
        with (
            opened(options.model, repack=False, **shape) as plain,
            opened(options.model, repack=True, **shape) as repacked,
        ):
            text = "\n".join(prompt.text for prompt in prompts())
            ids = plain.tokenize(text, special=False)
            arms = {"plain": plain, "repacked": repacked}
            taken = {arm: [costs(e, ids)] for arm, e in arms.items()}  # the first one warms up
            for _ in range(options.rounds):
                for arm, engine in arms.items():
                    taken[arm].append(costs(engine, ids))
    except PowerError as error:
        print(as_text(error.diagnostics, color=False), file=sys.stderr)
        return int(error.exit_code)
    best = {a: {k: min(t[k] for t in turns) for k in turns[0]} for a, turns in taken.items()}
    print(f"{options.model.name}, best of {options.rounds} rounds, ms")
    print(f"{'pass':12}{'plain':>10}{'repacked':>10}{'ratio':>8}")
    for what, plainly in best["plain"].items():
        packed = best["repacked"][what]
        print(f"{what:12}{plainly:10.2f}{packed:10.2f}{plainly / packed:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
