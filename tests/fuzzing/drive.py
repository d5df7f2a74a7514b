"""Give files that the validators accept to the engine, each pair in a process of its own.

Run as a script: reads JSON cases `[kind, target, draft]` from stdin, one a line, and
answers each with a line `[how, stage, last words]`. How: `takes` it, `says no` with
an exception, or `dies`, which includes taking too long or too much memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

from power.backends.interface import EngineConfig, SamplingConfig
from power.backends.llamacpp import BACKEND
from power.backends.llamacpp.library import native
from power.speculation.controller import make_controller
from power.speculation.outcome import Settings
from power.speculation.scheduler import generate

SECONDS = 20
MEMORY = 3 << 30
WIDTH = 3
SETTINGS = Settings(draft_max=WIDTH, draft_min=0, window=WIDTH, snapshots=WIDTH, context=64)


class Engine:
    """The process that drives pairs; started again when it goes."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None

    def outcome(self, kind: str, target: Path, draft: Path | None) -> list[str]:
        """[how, stage, last words] of one pair."""
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzzing.drive"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        case = [kind, str(target), None if draft is None else str(draft)]
        stdin, stdout = self._pipes()
        stdin.write(json.dumps(case) + "\n")
        stdin.flush()
        found: list[str] = json.loads(stdout.readline())
        return found

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._child is not None
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        return self._child.stdin, self._child.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            stdin, stdout = self._pipes()
            stdin.close()
            self._child.wait()
            stdout.close()


def drive(kind: str, target: str, draft: str | None, stage: Callable[[str], None]) -> None:
    """Load the pair, say every token, read a prompt, and draft a few rounds."""
    stage("load")
    fds = [os.open(path, os.O_RDONLY) for path in (target, draft) if path is not None]
    config = EngineConfig(
        target=(fds[0],),
        draft=tuple(fds[1:]),
        strategy=kind,
        draft_max=WIDTH,
        snapshots=WIDTH,
        context=64,
        batch=8,
        prefill_batch=16,
        threads=1,
        gpu_layers=0,
    )
    engine = BACKEND.open(config, lambda _: None)
    stage("tokenise")
    prompt = engine.tokenize("word1 <s> a é \x00\U0001f600", special=True)[:20]
    stage("detokenise")
    session = engine.session(SamplingConfig(), control=False)
    size = session.target.vocabulary_size
    for token in range(size):
        engine.vocabulary.piece(token)
        engine.vocabulary.is_end(token)
    for sampling in (
        SamplingConfig(),
        SamplingConfig(temperature=0.8, top_k=5, repeat_penalty=1.1),
    ):
        stage(f"run at temperature {sampling.temperature}")
        session = engine.session(sampling, control=False)
        generate(
            prompt=[*prompt, *(token % size for token in range(20, 26))],
            target=session.target,
            proposer=session.proposer,
            sampler=session.sampler,
            vocabulary=engine.vocabulary,
            controller=make_controller(SETTINGS, session.proposer),
            settings=SETTINGS,
            max_tokens=12,
            stop=(),
            emit=lambda _ids, _text: None,
            cancelled=lambda: False,
            clock=iter(range(1 << 62)).__next__,
        )
    stage("close")
    engine.close()


def outcome(case: list[Any]) -> list[str]:
    """Drive one pair in a child."""
    with tempfile.TemporaryFile("w+") as words, tempfile.TemporaryFile("w+") as stages:
        child = os.fork()
        if not child:
            _in_child(case, words, stages)
        timed_out = _reap(child, SECONDS * 2)
        words.seek(0)
        stages.seek(0)
        said, where = words.read().strip().splitlines(), stages.read().split("\n")
    code = os.waitstatus_to_exitcode(timed_out[1])
    how = {0: "takes", 1: "says no"}.get(code, "dies")
    name = signal.Signals(-code).name + ": " if code < 0 else ""
    if timed_out[0]:
        name = "it hangs: "
    return [how, where[-2] if len(where) > 1 else "", name + " / ".join(said[-3:])[-600:]]


def _reap(child: int, seconds: float) -> tuple[bool, int]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return False, status
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return True, os.waitpid(child, 0)[1]


def _in_child(case: list[Any], words: Any, stages: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.dup2(words.fileno(), 2)
    try:
        kind, target, draft = case
        drive(kind, target, draft, lambda name: print(name, file=stages, flush=True))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is no crash
        with contextlib.suppress(OSError):
            os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        os._exit(1)
    os._exit(0)


def main() -> None:
    native()  # loaded once; each child has it from here
    for line in sys.stdin:
        sys.stdout.write(json.dumps(outcome(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
