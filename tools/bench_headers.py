"""Compare reading a GGUF header with Power and with the gguf package.

    python tools/bench_headers.py FILE.gguf… [--rounds 3]

Arms, alternated, each in a process of its own:
  power         read_header: the header, every value located and checked
  power-target  the same, and check_target: vocabulary, sizes, tensors, digests
  gguf          gguf.GGUFReader
Seconds are from the open file to the result, imports not counted, the best of
all rounds. Memory is the peak of the whole process, imports and all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ARMS = ("power", "power-target", "gguf")
MIB = 1024  # VmHWM is in KiB


def child(arm: str, path: Path) -> None:
    """Run one arm in this process and print what it cost."""
    if arm == "gguf":
        from gguf import GGUFReader

        start = time.perf_counter()
        GGUFReader(path)
    else:
        from power.artifact.header import read_header
        from power.artifact.target import check_target

        start = time.perf_counter()
        fd = os.open(path, os.O_RDONLY)
        header = read_header(fd, os.fstat(fd).st_size, path.name)
        if arm == "power-target":
            check_target(header)
    seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text("ascii")
    peak = int(status.split("VmHWM:")[1].split()[0])
    print(json.dumps({"seconds": seconds, "peak_kib": peak}))


def measure(path: Path, rounds: int) -> dict[str, dict[str, float]]:
    """The best of `rounds` of every arm."""
    best = {arm: {"seconds": float("inf"), "peak_kib": float("inf")} for arm in ARMS}
    for _ in range(rounds):
        for arm in ARMS:
            done = subprocess.run(
                [sys.executable, __file__, "--child", arm, str(path)],
                capture_output=True,
                text=True,
                check=True,
            )
            for key, value in json.loads(done.stdout).items():
                best[arm][key] = min(best[arm][key], value)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.gguf")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", choices=ARMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.files[0])
        return
    print(f"{'file':44} {'arm':13} {'seconds':>8} {'MiB':>6} {'of gguf':>8}")
    for path in options.files:
        costs = measure(path, options.rounds)
        for arm in ARMS:
            seconds, peak = costs[arm]["seconds"], costs[arm]["peak_kib"] / MIB
            share = seconds / costs["gguf"]["seconds"]
            print(f"{path.name:44} {arm:13} {seconds:8.3f} {peak:6.0f} {share:8.1%}")


if __name__ == "__main__":
    main()
