"""A bench that kills itself (SIGKILL) right before it journals sample number AFTER + 1.

python -m tests.evidence.killed_bench FOLDER AFTER
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from power.evidence.journal import OpenJournal, SampleLine
from tests.evidence.conftest import Scripted
from tests.receipt.scripted import scripted_plan


def kill_after(samples: int) -> None:
    """Let this process die when sample number `samples` + 1 is to be journaled."""
    real = OpenJournal.add_sample

    def add(journal: OpenJournal, sample: SampleLine) -> None:
        if len(journal.samples) == samples:
            os.kill(os.getpid(), signal.SIGKILL)
        real(journal, sample)

    type.__setattr__(OpenJournal, "add_sample", add)


def main(folder: str, after: str) -> None:
    kill_after(int(after))
    scripted = Scripted(Path(folder))
    plan = scripted_plan("prompt-lookup")
    arms = [scripted.arm("control", plan, control=True), scripted.arm("plan", plan)]
    scripted.run(scripted.bench(arms))


if __name__ == "__main__":
    main(*sys.argv[1:])
