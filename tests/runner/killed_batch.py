"""A batch that kills itself (SIGKILL) once it has written so many bytes of answers.

python -m tests.runner.killed_batch PLAN.json PROMPTS OUT BYTES
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from power.plan.model import Plan
from power.runner import line_file
from power.runner.batch import run_batch
from power.runner.runner import Runner
from tests.runner.conftest import ROGUE, Artifacts, Opened


def die_after(limit: int) -> Callable[[int, Any], int]:
    """A `write` that kills this process once `limit` bytes are out."""
    written = 0
    real = os.write

    def write(fd: int, data: Any) -> int:
        nonlocal written
        part = bytes(data)[: limit - written]
        written += real(fd, part)
        if written >= limit:
            os.kill(os.getpid(), signal.SIGKILL)
        return len(part)

    return write


def main(plan: str, prompts: str, out: str, limit: str) -> None:
    sys.path.insert(0, str(ROGUE))
    fd = os.memfd_create("artifact")
    os.write(fd, b"weights")
    loaded = Plan.model_validate_json(Path(plan).read_text("utf-8"))
    with Runner(loaded, Artifacts((Opened(fd),)), backend="rogue") as runner:
        vars(line_file)["os"].write = die_after(int(limit))
        run_batch(runner, Path(prompts), Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
