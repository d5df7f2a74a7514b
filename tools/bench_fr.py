"""Measure what a reduced draft head saves native MTP, on a hybrid model of many tokens.

    python tools/bench_fr.py [--vocabulary 49152] [--rows 8192] [--width 256] [--repeats 200]

The engine has no reduced head for its prediction block: Power runs the block
without outputs and projects the hidden row on the first rows of the head in
numpy. Three medians over single-row decodes of the block, one thread: with the
engine's whole head, with numpy's reduced one, and without any (the floor).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from power.backends.llamacpp.context import Context, ContextConfig
from power.backends.llamacpp.model import Model
from power.backends.llamacpp.reduced_head import read_head
from tools.build_drafts.qwen35 import Qwen35Target
from tools.build_drafts.walk import Walk


def main() -> None:
    """Build the model, measure, print one line a way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=int, default=49152)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        walk = Walk(width=options.width, vocabulary=options.vocabulary)
        fd = os.open(Qwen35Target("fr", walk).write(Path(folder)), os.O_RDONLY)
        started = time.perf_counter()
        head = read_head([fd], options.rows)
        print(f"head of {options.rows} rows read in {time.perf_counter() - started:.2f} s")
        model = Model([fd], what="target", load_mtp=True)
        block = Context(model, ContextConfig(512, 32, 1, 1, kind="mtp", widths=(model.width,)))
        block.expose_nextn(masked=False)
        hidden = np.ones((1, model.width), np.float32)

        def whole() -> None:
            int(block.decode([9], block.filled(), 1, hidden)[0].argmax())

        def reduced() -> None:
            block.decode([9], block.filled(), 0, hidden)
            int(head.project(block.nextn(1)[0]).argmax())

        def none() -> None:
            block.decode([9], block.filled(), 0, hidden)

        costs = measure(block, (whole, reduced, none), options.repeats)
        for name, cost in zip(("whole head", "reduced head", "no head"), costs, strict=True):
            print(f"{name:12}  {cost * 1e6:9.1f} us a row")
        print(f"reduced / whole: {costs[1] / costs[0]:.2f}")
        block.close()
        model.close()
        os.close(fd)


def measure(block: Context, ways: tuple[Callable[[], None], ...], repeats: int) -> list[float]:
    """Median seconds of each way, taken in turns so that a slow moment hits all of them."""
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(repeats):
        block.clear()
        for way, into in zip(ways, taken, strict=True):
            started = time.perf_counter()
            way()
            into.append(time.perf_counter() - started)
    return [statistics.median(seconds) for seconds in taken]


if __name__ == "__main__":
    main()
