"""A small matrix on the real engine: two strategies and their control, on a tiny model."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import psutil

from power.backends.llamacpp import BACKEND
from power.evidence.design import Cell, Design, Session
from power.evidence.executor import Executor, Runs
from power.evidence.workplace import LaneSpec
from power.plan.compile import compile_manifest, write_lock
from power.plan.lock import load
from power.receipt.statement import build_statement
from power.runner.prompts import Prompt, parse_prompts

MODEL = Path(__file__).parents[1] / "vectors" / "corpus" / "gguf" / "good-v3-target.gguf"
MANIFEST = """\
schema = 1
name = "{name}"

[target]
path = "target.gguf"
bytes = {bytes}
sha256 = "{sha256}"

[speculation]
spec_mode = "{mode}"
spec_draft_max = 4

[graph]
batch = 8
context = 128
prefill_batch = 64
shape = "natural"

[host]
threads = {threads}

[sampling]
temperature = 0.0
max_tokens = 40
"""
WORDS = ("one two three", "the sea", "a b a b a", "salt and salt and")
MODES = ("prompt-lookup", "ngram-context")


@dataclass(frozen=True)
class Matrix:
    """Two plans and a control of the first, on a few prompts, in two rounds."""

    folder: Path
    specs: Sequence[LaneSpec]
    prompts: Sequence[Prompt]

    @property
    def design(self) -> Design:
        return Design(len(self.specs), len(self.prompts), 2)

    @property
    def sessions(self) -> list[Session]:
        return list(self.design.sessions())

    @property
    def cells(self) -> list[Cell]:
        return list(self.design.cells())

    def claims(self, executor: Executor) -> dict[Cell, str]:
        """Run it whole, and the claim that every receipt would make."""
        claims = {}
        for finished in executor.run(self.sessions):
            spec = self.specs[finished.cell.arm]
            statement = build_statement(
                load(spec.lock), spec.plan, finished.request, finished.record
            )
            assert finished.cell not in claims
            claims[finished.cell] = statement["predicate"]["claim_sha256"]
        return claims


def make(folder: Path, prompts: int = 4, threads: int = 1) -> Matrix:
    """Write the model and the plans into `folder`."""
    data = MODEL.read_bytes()
    shutil.copy(MODEL, folder / "target.gguf")
    locks = []
    for mode in MODES:
        manifest = folder / f"{mode}.toml"
        sha256 = hashlib.sha256(data).hexdigest()
        text = MANIFEST.format(
            name=mode, bytes=len(data), sha256=sha256, mode=mode, threads=threads
        )
        manifest.write_text(text, "utf-8")
        compiled = compile_manifest(manifest, profile=None, roots=(), engine=BACKEND.describe())
        locks.append(folder / f"{mode}.lock")
        write_lock(locks[-1], compiled)
    arms = [(locks[0], True), *((lock, False) for lock in locks)]
    specs = [LaneSpec(lock.read_bytes(), lock, (), control) for lock, control in arms]
    lines = "".join(
        f'{{"id": "{n}", "prompt": "{WORDS[n % len(WORDS)]} {n}"}}\n' for n in range(prompts)
    ).encode()
    sampling = load(locks[0]).sampling
    return Matrix(folder, specs, parse_prompts(lines, folder / "p", sampling, chat=True))


def interrupted(runs: Runs) -> list[Cell]:
    """The samples of `runs` until Ctrl-C came, which is right after the first one."""
    interrupt = Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
    came: list[Cell] = []
    # A job in the background is born deaf to it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with closing(runs):
            for finished in runs:
                came.append(finished.cell)
                if len(came) == 1:
                    interrupt.start()
    except KeyboardInterrupt:
        interrupt.join()
        return came
    finally:
        signal.signal(signal.SIGINT, before)
    raise AssertionError("it was not interrupted")


def no_guard(_cancel: Callable[[], None]) -> AbstractContextManager[None]:
    """For a workplace whose sessions nobody interrupts."""
    return nullcontext()


def children(word: str) -> list[psutil.Process]:
    """Children of this process, and theirs, whose command line has `word`."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            command = " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        if word in command:
            found.append(process)
    return found
