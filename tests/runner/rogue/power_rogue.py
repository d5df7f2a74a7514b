"""An engine that does what its prompt says, the bad things included.

Tokens are bytes. It continues `copy:TEXT` with TEXT again and again; a prompt
`PLACE!DEED` does DEED at PLACE (`token`: tokenising, `pass3`: the third pass).
The bytes of the first artifact may be `load!DEED`, which happens while it loads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from power.backends.errors import EngineError
from power.backends.interface import EngineConfig, EngineFacts, EngineIdentity, SamplingConfig
from power.diagnostics import fail

FACTS = EngineFacts("power-rogue", "1.0", "none", {"off": None, "prompt-lookup": None})
IDENTITY = EngineIdentity("power-rogue", "1.0", "none", {}, ["CPU"], "")
END = 0


def do(deed: str) -> None:
    """One bad deed."""
    DEEDS[deed]()


def abort() -> None:
    sys.stderr.write("ggml.c:1: GGML_ASSERT(rogue) failed\n")
    sys.stderr.flush()
    os.abort()


def chatter() -> None:
    os.write(1, b"native chatter\n" * 20_000)


def raise_memory() -> NoReturn:
    raise MemoryError("no 64 GiB for you")


def raise_engine() -> NoReturn:
    raise EngineError("decode", "the pass failed", "rc = -3")


def raise_surprise() -> NoReturn:
    raise LookupError("no such row")


def refuse() -> NoReturn:
    fail("P515", "the rogue refuses", hint="ask again")


def hang() -> NoReturn:
    while True:
        signal.pause()


def garbage() -> None:
    """Write to the worker's socket behind its back; its number is the first argument."""
    os.write(int(sys.argv[1]), b"\0\0\0\x0fthis is no JSON")
    hang()


def huge() -> None:
    os.write(int(sys.argv[1]), b"\xff\xff\xff\xff")
    hang()


def close() -> None:
    os.close(int(sys.argv[1]))
    hang()


DEEDS: dict[str, Callable[[], object]] = {
    "abort": abort,
    "segv": lambda: ctypes.string_at(0),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(7),
    "hang": hang,
    "chatter": chatter,
    "memory": raise_memory,
    "engine": raise_engine,
    "surprise": raise_surprise,
    "refuse": refuse,
    "garbage": garbage,
    "huge": huge,
    "close": close,
}


@dataclass
class Target:
    """Knows the whole text beforehand: row i is what follows."""

    script: bytes
    place: str
    deed: str
    vocabulary_size: int = 256
    position: int = 0
    passes: int = 0
    prompt: int = 0
    emitted: int = 0

    def prefill(self, tokens: Sequence[int], taken: Callable[[int], None] = lambda _: None) -> None:
        self.position = self.prompt = len(tokens)
        if self.place == "prefill":
            do(self.deed)
        for done in range(4, len(tokens) + 1, 4):
            taken(done)

    def checkpoint(self) -> int:
        return self.position

    def evaluate(self, tokens: Sequence[int]) -> None:
        self.passes += 1
        if self.place == f"pass{self.passes}":
            do(self.deed)

    def commit(self, keep: int) -> bool:
        self.position += keep
        return True

    def replay(self, checkpoint: object, tokens: Sequence[int]) -> None:
        self.position = int(str(checkpoint)) + len(tokens)

    def restore(self, checkpoint: object) -> None:
        self.position = int(str(checkpoint))

    def row(self, row: int) -> int:
        index = self.position - self.prompt + row
        return self.script[index % len(self.script)] if self.script else END


@dataclass
class Sampler:
    target: Target

    def checkpoint(self) -> object:
        return None

    def sample(self, row: int) -> int:
        return self.target.row(row)

    def restore(self, checkpoint: object) -> None:
        pass


@dataclass
class Proposer:
    """Proposes the truth, three tokens at a time."""

    target: Target
    max_width: int

    def begin(self, prompt: Sequence[int]) -> None:
        pass

    def checkpoint(self) -> object:
        return None

    def propose(self, limit: int) -> Sequence[int]:
        return [self.target.row(i) for i in range(min(3, limit))]

    def commit(self, emitted: Sequence[int], accepted: int) -> None:
        pass

    def restore(self, checkpoint: object) -> None:
        pass


@dataclass
class Vocabulary:
    def piece(self, token: int) -> bytes:
        return b"" if token == END else bytes([token])

    def is_end(self, token: int) -> bool:
        return token == END


@dataclass
class Session:
    target: Target
    proposer: Proposer
    sampler: Sampler


@dataclass
class Engine:
    config: EngineConfig
    prompt: str = ""
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    identity: EngineIdentity = IDENTITY

    def tokenize(self, text: str, *, special: bool, plain: object = ()) -> list[int]:
        self.prompt = text
        if text.startswith("token!"):
            do(text.partition("!")[2])
        return list(text.encode())

    def session(
        self, sampling: SamplingConfig, *, control: bool, rows: int | None = None
    ) -> Session:
        place, _, deed = self.prompt.partition("!")
        script = self.prompt.removeprefix("copy:") if "copy:" in self.prompt else "abc"
        target = Target(script.encode(), place, deed)
        lies = self.prompt == "lazy"
        width = 0 if control or lies or self.config.strategy == "off" else 3
        return Session(target, Proposer(target, width), Sampler(target))

    def close(self) -> None:
        pass


class Backend:
    name = "rogue"

    def describe(self) -> EngineFacts:
        return FACTS

    def identify(self) -> EngineIdentity:
        return IDENTITY

    def open(self, config: EngineConfig, progress: Callable[[float], None]) -> Engine:
        progress(0.5)
        content = os.pread(config.target[0], 64, 0).decode()
        if content.startswith("load!"):
            do(content.partition("!")[2])
        progress(1.0)
        return Engine(config)


BACKEND = Backend()
