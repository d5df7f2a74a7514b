"""Look for GGUFs that Power accepts and the engine dies on.

    python -m tools.fuzz_gguf --minutes 60

Changes sound pairs at random (`tests/fuzzing`), asks the validators, and gives what
they accept to the engine in processes of their own. Whatever dies, hangs, or is
refused in another way than with a diagnostic is kept in `--keep`, with what was
changed. The same seed makes the same files. Exit 1: something was found.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tests.fuzzing.drive import Engine
from tests.fuzzing.judge import misspoken, refusal
from tests.fuzzing.mutate import mutate
from tests.fuzzing.seeds import SEEDS, Seed

BUGS = ("dies", "traceback", "misspoken")


def made(random: Random, seed: Seed, folder: Path) -> tuple[Path, Path | None, list[str]]:
    """One changed pair as files, and what was changed."""
    target = seed.target()
    draft = None if seed.draft is None else seed.draft()
    which = target if draft is None or random.random() < 0.25 else draft
    said = mutate(random, which)
    path = folder / "target.gguf"
    path.write_bytes(target.encode())
    if draft is None:
        return path, None, said
    head = folder / "draft.gguf"
    head.write_bytes(draft.encode())
    return path, head, [f"draft: {s}" if which is draft else s for s in said]


def one(
    random: Random, name: str, folder: Path, engine: Engine | None
) -> tuple[str, dict[str, Any]]:
    """How one pair ended, and what to keep of it."""
    seed = SEEDS[name]
    target, draft, said = made(random, seed, folder)
    case: dict[str, Any] = {"seed": name, "kind": seed.kind, "changes": said}
    try:
        error = refusal(seed.kind, target, draft)
    except Exception as bug:  # noqa: BLE001 - that is what is looked for
        return "traceback", case | {"error": f"{type(bug).__name__}: {bug}"}
    if error is not None:
        wrong = misspoken(error)
        return ("misspoken", case | {"error": wrong}) if wrong else ("refused", case)
    if engine is None:
        return "accepted", case
    how, stage, words = engine.outcome(seed.kind, target, draft)
    return how, case | {"stage": stage, "words": words}


def main() -> None:
    """Run until the time is over; say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--only", choices=sorted(SEEDS), action="append")
    parser.add_argument("--no-engine", action="store_true", help="ask the validators alone")
    given = parser.parse_args()
    with TemporaryDirectory() as folder, Engine() as engine:
        counts = hunt(given, Path(folder), None if given.no_engine else engine)
    print(", ".join(f"{count} {how}" for how, count in counts.most_common()))
    sys.exit(any(counts[how] for how in BUGS))


def hunt(given: argparse.Namespace, folder: Path, engine: Engine | None) -> Counter[str]:
    """Try pair after pair, the seeds in turn; how many ended how."""
    counts: Counter[str] = Counter()
    names = sorted(given.only or SEEDS)
    end = time.monotonic() + given.minutes * 60
    for number, name in enumerate(itertools.cycle(names)):
        if time.monotonic() > end:
            break
        how, case = one(Random(f"{given.seed}/{number}"), name, folder, engine)
        counts[how] += 1
        if how in BUGS:
            keep(given.keep / f"{given.seed}-{number}", folder, case)
            print(f"{given.seed}/{number} {how}: {json.dumps(case)}", flush=True)
    return counts


def keep(place: Path, folder: Path, case: dict[str, Any]) -> None:
    """Copy the pair and what was done to it."""
    place.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    (place / "case.json").write_text(json.dumps(case, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
