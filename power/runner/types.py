"""A request to a runner and the record of its run: plain values, JSON-able."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from power.runner.literal import Spans


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt.

    text: the prompt, already through the chat template when there is one.
    special: control tokens written in the text are tokens (True after a chat
        template), else plain text.
    plain: places of the text, in characters, that stay plain even so: what a
        message spells (`power.runner.literal`).
    max_tokens: at most the plan's; None: the plan's.
    seed: None: the plan's.
    control: the same plan and shape, with no proposer.
    stop: stop sequences, cut from the text.
    rendering_ns: what the chat template took, counted with tokenising.
    """

    text: str
    special: bool = False
    max_tokens: int | None = None
    seed: int | None = None
    control: bool = False
    stop: tuple[str, ...] = ()
    plain: Spans = ()
    rendering_ns: int = 0


@dataclass(frozen=True, slots=True)
class EngineRecord:
    """The engine as it was really loaded in the worker."""

    package: str
    version: str
    llama_cpp: str
    libraries: dict[str, str]  # file name -> SHA-256 hex
    devices: list[str]


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The host, without its name or its user's."""

    os: str  # e.g. "Linux 6.1.0"
    machine: str  # e.g. "x86_64"
    cpu: str  # model name
    physical_cores: int
    threads: int  # used by the engine
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Everything a receipt says about one request. Times are integer microseconds.

    first_tokens: tokens of the first commit, at `first_token_us`; steady decoding is
        the rest of `ids` in the rest of the time. 0 where nothing was emitted.
    fr_covered: emitted tokens that the reduced draft head (FR) could have proposed,
        None where no head was reduced.
    """

    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    text: bytes
    finish: str  # Finish value
    control: bool
    strategy: str  # what really ran: "off" for a control run
    seed: int
    max_tokens: int
    counters: dict[str, Any]  # Counters without phases, keys as there
    phases_us: dict[str, int]  # Phase value -> time; they add up to wall_us
    wall_us: int
    first_token_us: int | None
    first_tokens: int
    started: str  # RFC 3339, UTC, "Z"
    finished: str
    peak_rss_bytes: int
    engine: EngineRecord
    host: HostRecord
    notes: list[str] = field(default_factory=list)
    fr_covered: int | None = None
