"""Compare ways to get a model's weights from a file into a process.

    python tools/bench_loading.py MODEL.gguf [--rounds 3]

Arms, alternated, each in a process of its own:
  map-file     the file itself, mapped: fast, and an edit of the file changes the running model
  read-file    the file itself, read into private memory; hashed before, from the same descriptor
  read-sealed  a sealed copy in memory, hashed while copied; read into private memory
  map-sealed   the same sealed copy, mapped
Times start with the open file (its pages are in the cache) and end after one evaluated token.
`peak` and `steady` count what the model takes from the machine and can not give back under
pressure: the worker's private pages and the sealed copy. Steady is after every descriptor
that is not needed any more was closed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ARMS = ("map-file", "read-file", "read-sealed", "map-sealed")
MIB = 1 << 20


def child(arm: str, path: Path) -> dict[str, float]:
    """Run one arm in this process and measure it."""
    from power.artifact.hashing import hash_files
    from power.artifact.opened import open_file
    from power.artifact.sealing import seal_files
    from power.backends.llamacpp.context import Context, ContextConfig
    from power.backends.llamacpp.library import native
    from power.backends.llamacpp.model import LOAD_MMAP, LOAD_READ, Model

    native()
    before = _private()
    file = open_file(path.name, [path.parent])
    start = time.perf_counter()
    copy = 0
    if arm.endswith("sealed"):
        sealed = seal_files([file])[0]
        fd, copy = sealed.fd, sealed.size
    else:
        hash_files([file])
        fd = file.fd
    hashed = time.perf_counter()
    mode = LOAD_MMAP if arm.startswith("map") else LOAD_READ
    model = Model([fd], what="target", load_mode=mode)
    context = Context(model, ContextConfig(512, 64, 1, 1))
    context.decode([1], 0, outputs=1)
    ready = time.perf_counter()
    loaded = _private() - before
    os.close(fd)
    kept = copy if mode == LOAD_MMAP else 0
    result = {
        "hash_s": hashed - start,
        "load_s": ready - hashed,
        "peak_mib": (loaded + copy) / MIB,
        "steady_mib": (_private() - before + kept) / MIB,
    }
    context.close()
    model.close()
    return result


def _private() -> int:
    """Bytes of private pages of this process."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon in /proc/self/status")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    path = options.model.resolve()
    if options.arm:
        print(json.dumps(child(options.arm, path)))
        return
    path.read_bytes()  # into the page cache, for every arm alike
    seen: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
    for _ in range(options.rounds):
        for arm in ARMS:
            command = [sys.executable, __file__, str(path), "--arm", arm]
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
            seen[arm].append(json.loads(out))
    print(f"{path.name}, {path.stat().st_size / MIB:.0f} MiB, median of {options.rounds}")
    print(f"{'arm':<12} {'hash s':>7} {'load s':>7} {'peak MiB':>9} {'steady MiB':>11}")
    for arm, runs in seen.items():
        hashed, load, peak, steady = (
            statistics.median(run[key] for run in runs)
            for key in ("hash_s", "load_s", "peak_mib", "steady_mib")
        )
        print(f"{arm:<12} {hashed:>7.2f} {load:>7.2f} {peak:>9.0f} {steady:>11.0f}")


if __name__ == "__main__":
    main()
