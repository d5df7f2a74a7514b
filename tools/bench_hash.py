"""Compare hashing with Power and with `openssl dgst -sha256`.

    python tools/bench_hash.py FILE FILE [--rounds 7]

Arms, alternated in every round:
  openssl   `openssl dgst -sha256` on the first file
  ceiling   two of these at once, on both files: what the machine gives to two threads
  one       hash_files on the first file
  two       hash_files on both: as many threads as there are cores
  sealed    seal_files on both: hashed while copied into sealed memory
Files are read once before, so that the disk is not measured. Each round gives one
ratio of bytes per second to openssl's in the same round; the median is printed.
A digest is serial, so two files can at best be as fast as their larger one: exits 1
when `one` is below 0.9, or `two` below 0.9 of that (1.8 for two files of one size)
where two cores can be used. Where two cores share one unit that computes SHA-256, as
two threads of one core do, or something else takes one of them, not even two
processes of openssl are twice as fast: `two` then has to reach 0.9 of the ceiling.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from power.artifact.hashing import hash_files
from power.artifact.opened import OpenFile, open_file
from power.artifact.sealing import seal_files

FLOOR = 0.9


def rate(action: Callable[[], object], size: int) -> float:
    """Bytes per second of `action`, which handles `size` bytes."""
    start = time.perf_counter()
    action()
    return size / (time.perf_counter() - start)


def openssl(*paths: Path) -> None:
    """One process a file, all at once."""
    command = ("openssl", "dgst", "-sha256")
    running = [subprocess.Popen([*command, path], stdout=subprocess.DEVNULL) for path in paths]
    if any(process.wait() for process in running):
        raise SystemExit("openssl failed")


def seal(files: list[OpenFile]) -> None:
    for copy in seal_files(files):
        copy.close()


def measure(files: list[OpenFile], rounds: int) -> dict[str, list[float]]:
    """Ratios to openssl by arm, one a round."""
    ratios: dict[str, list[float]] = {"ceiling": [], "one": [], "two": [], "sealed": []}
    paths = [file.path for file in files]
    first, both = files[0].size, sum(file.size for file in files)
    for _ in range(rounds):
        base = rate(lambda: openssl(files[0].path), first)
        ratios["ceiling"].append(rate(lambda: openssl(*paths), both) / base)
        ratios["one"].append(rate(lambda: hash_files(files[:1]), first) / base)
        ratios["two"].append(rate(lambda: hash_files(files), both) / base)
        ratios["sealed"].append(rate(lambda: seal(files), both) / base)
    return ratios


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs=2, type=Path, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    files = [open_file(path.name, [path.parent]) for path in options.files]
    hash_files(files)
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores; sizes {' and '.join(f'{file.size:,}' for file in files)}")
    sizes = [file.size for file in files]
    found = measure(files, options.rounds)
    two = sum(sizes) / max(sizes) if cores > 1 else 1.0
    floors = {"one": FLOOR, "two": FLOOR * min(two, median(found["ceiling"]))}
    failed = False
    for arm, ratios in found.items():
        middle, spread = median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}"
        floor = floors.get(arm)
        failed |= floor is not None and middle < floor
        wanted = "" if floor is None else f", floor {floor:.2f}"
        print(f"{arm:7} {middle:5.2f} of openssl ({spread}){wanted}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
