"""Give pairs of files to the engine that no contract looked at, each in a process of its own.

Run as a script: reads a JSON list of [kind, target, draft] on standard input,
prints one of what became of each: [how, in which stage, last words].

How: `takes` it, `says no` with an exception, or `dies`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from power.backends.interface import EngineConfig, SamplingConfig
from power.backends.llamacpp import BACKEND
from power.backends.llamacpp.library import native

SECONDS = 30
PROMPT = [20, 21, 22, 23, 24, 25]
WIDTH = 3


def drive(kind: str, target: str, draft: str, stage: Callable[[str], None]) -> None:
    """Load the pair, read a prompt, and draft a few rounds."""
    stage("load")
    fds = [os.open(path, os.O_RDONLY) for path in (target, draft)]
    config = EngineConfig(
        target=(fds[0],),
        draft=(fds[1],),
        strategy=kind,
        fr_rule="d2t" if kind == "mtp" else "full",  # its draft is a table
        snapshots=WIDTH,
        draft_max=WIDTH,
        draft_p_min=0.01,
        context=64,
        prefill_batch=16,
        threads=1,
        gpu_layers=0,
    )
    engine = BACKEND.open(config, lambda _: None)
    session = engine.session(SamplingConfig(), control=False)
    stage("read the prompt")
    session.target.prefill(PROMPT[:-1])
    session.proposer.begin(PROMPT)
    for _ in range(3):
        stage("draft")
        proposal = session.proposer.propose(WIDTH)
        session.target.evaluate([PROMPT[-1], *(t for t in proposal if 0 <= t < 32)])
        session.target.commit(1)
        session.proposer.commit([PROMPT[-1]], 0)
    engine.close()


def outcome(case: list[str]) -> list[str]:
    """Drive one pair in a child."""
    with tempfile.TemporaryFile("w+") as words, tempfile.TemporaryFile("w+") as stages:
        child = os.fork()
        if not child:
            _in_child(case, words, stages)
        _, status = os.waitpid(child, 0)
        words.seek(0)
        stages.seek(0)
        said, where = words.read().strip().splitlines(), stages.read().split("\n")
    code = os.waitstatus_to_exitcode(status)
    how = {0: "takes", 1: "says no"}.get(code, "dies")
    name = signal.Signals(-code).name + ": " if code < 0 else ""
    return [how, where[-2], name + (said[-1] if said else "")]


def _in_child(case: list[str], words: Any, stages: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    os.dup2(words.fileno(), 2)
    try:
        drive(*case, stage=lambda name: print(name, file=stages, flush=True))  # type: ignore[arg-type, misc]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no crash
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    native()  # loaded once; each child has it from here
    json.dump([outcome(case) for case in json.load(sys.stdin)], sys.stdout)
