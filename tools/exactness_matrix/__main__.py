"""Run every proposer on tiny models and compare each run with its control.

    python -m tools.exactness_matrix [--only STRATEGY] [--prompts 5] [--tokens 100] [--write]

Every strategy x K x S x draft vocabulary x controller on every fixture that
supports it, greedy and sampled with a fixed seed: token ids and finish must be
those of the control run: the target alone, at the same shape. Exits 1 when one is
not. --write puts the table into docs/reference/exactness-matrix.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

from power.backends.llamacpp import BACKEND
from tools.build_drafts.catalogue import BLOCK_DRAFTS, EAGLE_DRAFTS, SMALL, build
from tools.build_drafts.qwen35 import Qwen35Target
from tools.build_drafts.targets import LlamaTarget
from tools.exactness_matrix.cases import Pair, pairs
from tools.exactness_matrix.lab import SAMPLERS, Controls, Key, Tally, measure
from tools.exactness_matrix.report import markdown, problems

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "exactness-matrix.md"
SMALLER = LlamaTarget("smaller", SMALL, push=0.2, swaps=0)
"""A draft model: the target's walk without its swapped successors, and pushed less."""

HYBRID = Qwen35Target("qwen35", SMALL)
DRAFTS = tuple(recipe.name for recipe in (*BLOCK_DRAFTS, *EAGLE_DRAFTS))
TABLE = "mtp-d2t"
ON_HYBRID = (
    TABLE,
    *("dflash", "dflash-own-d2t", "dflash-nine", "dflash-sections", "dflash2", "dspark"),
    *("dspark-own-d2t", "dspark-bonus", "eagle3", "eagle3-own-d2t"),
)
MADE_FOR = {"walk": (SMALLER.name, *DRAFTS), HYBRID.name: ON_HYBRID}
"""Target -> drafts; a KV cache gets every variant, the dearer hybrid one of each sort."""


def fixtures(folder: Path) -> dict[str, Path]:
    """Every file of the matrix: name -> path."""
    others = {recipe.name: recipe.write(folder) for recipe in (SMALLER, HYBRID)}
    return build(folder, ["walk", TABLE, *DRAFTS]) | others


def chosen(files: dict[str, Path], only: str | None) -> Iterator[Pair]:
    """The pairs that this engine executes."""
    engine = BACKEND.describe()
    for pair in pairs(files, MADE_FOR):
        lacks = engine.capabilities[pair.named]
        if only not in {None, pair.strategy}:
            continue
        if lacks is None:
            yield pair
        else:
            print(f"SKIPPED {pair.target} {pair.draft or pair.strategy}: {lacks}", file=sys.stderr)


def page(table: dict[Key, Tally], prompts: int, tokens: int) -> str:
    """The page of the reference, whole."""
    engine = BACKEND.describe()
    runs, equal = (sum(getattr(t, name) for t in table.values()) for name in ("runs", "equal"))
    samplers = " and ".join(SAMPLERS)
    text = f"""\
{equal} of {runs} runs gave the token ids of their control run: the target alone, at the same shape.
{prompts} prompts, {tokens} tokens each, {samplers}; K from 1 to 10 and S up to K as far as each
draft's contract allows; {engine.package} {engine.version} with llama.cpp {engine.llama_cpp} on a
CPU, one thread. The models are tiny constructed files that `tools/build_drafts` makes again byte
for byte; their drafts are made to be wrong at times, so acceptance says nothing about trained
ones."""
    return f"""\
# Exactness, run by run

{textwrap.fill(text, 100, break_on_hyphens=False)}

Written by `python -m tools.exactness_matrix --write`, which exits 1 when a single run differs.
What the words mean: [Speculation, by the round](../explanation/speculation.md).

{markdown(table)}
"""


def main() -> int:
    """Measure, print, and say whether everything is as it has to be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="STRATEGY", help="one strategy, or one made-up proposer")
    parser.add_argument("--prompts", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--write", action="store_true", help=f"write docs/reference/{PAGE.name}")
    arguments = parser.parse_args()
    table: dict[Key, Tally] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = fixtures(Path(folder))
        controls = Controls(files, count=arguments.prompts, max_tokens=arguments.tokens)
        for pair in chosen(files, arguments.only):
            print(f"{pair.target} {pair.draft or pair.strategy}", file=sys.stderr, flush=True)
            table |= measure(pair, controls)
    print(markdown(table))
    found = list(problems(table))
    for problem in found:
        print(problem, file=sys.stderr)
    if arguments.write and not found:
        PAGE.write_text(page(table, arguments.prompts, arguments.tokens), "utf-8")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
