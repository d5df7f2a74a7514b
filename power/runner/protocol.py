"""What the parent and the worker say to each other, and how it is framed.

A frame is a big-endian u32 length and that many bytes of UTF-8 JSON: one object
with a `type`. Bytes travel as base64. The two ends are one version of one
package on one host, so a version that differs is refused, not negotiated.

The parent does not trust the worker (native code has parsed a file there): it
reads frames with `power.runner.frames`, which checks every field. The worker
trusts its parent. This module stays free of heavy imports for its sake.
"""

from __future__ import annotations

import json
import socket
import struct
from binascii import b2a_base64
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Literal

from power.backends.interface import EngineConfig, EngineIdentity, SamplingConfig
from power.diagnostics import Diagnostic
from power.speculation.outcome import Counters, Finish, Settings

PROTOCOL = 1
MAX_FRAME = 64 * 1024 * 1024
"""Bytes of a frame's JSON; a larger one is refused before it is read or sent."""

_LENGTH = struct.Struct(">I")
_STRICT = {"extra": "forbid", "strict": True, "val_json_bytes": "base64"}


class FrameError(Exception):
    """The other end sent something that is not a frame of this protocol."""


# --- parent to worker --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """Load an engine; the first frame.

    affinity: CPU numbers, or None to leave the mask alone. nice: added to the
    process's niceness. beat_s: seconds after which a busy worker shows a sign of life.
    """

    backend: str
    engine: EngineConfig
    settings: Settings
    affinity: tuple[int, ...] | None
    nice: int
    beat_s: float
    protocol: int = PROTOCOL
    type: Literal["load"] = "load"


@dataclass(frozen=True, slots=True)
class Run:
    """Run one request. `clock_ns` is CLOCK_MONOTONIC when the caller asked for it."""

    number: int
    text: str
    special: bool
    sampling: SamplingConfig
    control: bool
    max_tokens: int
    stop: tuple[str, ...]
    clock_ns: int
    type: Literal["run"] = "run"


@dataclass(frozen=True, slots=True)
class Cancel:
    """End request `number` at its last committed round; too late is no error."""

    number: int
    type: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True)
class Close:
    """Free the engine and end the process."""

    type: Literal["close"] = "close"


# --- worker to parent --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of the model is loaded, 0.0 to 1.0."""

    __pydantic_config__: ClassVar = _STRICT
    fraction: float
    type: Literal["progress"] = "progress"


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine is loaded and takes requests. `notes`: host settings not granted."""

    __pydantic_config__: ClassVar = _STRICT
    identity: EngineIdentity
    notes: tuple[str, ...]
    protocol: int = PROTOCOL
    type: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class Alive:
    """A sign of life between native calls.

    calls: how many native calls may pass until the next frame; each has the
    whole time limit for itself.
    """

    __pydantic_config__: ClassVar = _STRICT
    calls: int = 1
    type: Literal["alive"] = "alive"


@dataclass(frozen=True, slots=True)
class Emit:
    """Text that a round has committed, byte for byte, in whole characters."""

    __pydantic_config__: ClassVar = _STRICT
    text: bytes
    type: Literal["emit"] = "emit"


@dataclass(frozen=True, slots=True)
class Done:
    """A request ended. Times are nanoseconds of CLOCK_MONOTONIC.

    text: all of it; what was emitted, and for a cancelled request possibly more.
    proposer_width: `max_width` of the proposer that really ran. wall_ns and
    first_token_ns count from `Run.clock_ns`, to the last commit and the first,
    which had first_tokens tokens.
    """

    __pydantic_config__: ClassVar = _STRICT
    number: int
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    text: bytes
    finish: Finish
    proposer_width: int
    counters: Counters
    wall_ns: int
    first_token_ns: int | None
    first_tokens: int
    peak_rss_bytes: int
    type: Literal["done"] = "done"


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no result, and why. The worker ends after one of the gravest (exit 3 or 4)."""

    __pydantic_config__: ClassVar = _STRICT
    diagnostics: tuple[Diagnostic, ...]
    type: Literal["refused"] = "refused"


ToWorker = Load | Run | Cancel | Close
FromWorker = Progress | Ready | Alive | Emit | Done | Refused


# --- framing -----------------------------------------------------------------


def encode(message: ToWorker | FromWorker) -> bytes:
    """`message` as one frame; raises FrameError when it is larger than MAX_FRAME."""
    if isinstance(message, Emit):  # one a round, inside the time of the round: 15 us -> 1 us
        body = b'{"type":"emit","text":"%b"}' % b2a_base64(message.text, newline=False)
    else:
        text = json.dumps(message, default=_plain, ensure_ascii=False, separators=(",", ":"))
        body = text.encode()
    if len(body) > MAX_FRAME:
        raise FrameError(f"a frame of {len(body)} bytes is larger than {MAX_FRAME}")
    return _LENGTH.pack(len(body)) + body


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode("ascii")
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not travel in a frame")


class FrameBuffer:
    """Bytes as they arrive, cut into frame bodies."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take in bytes as they came."""
        self._data += data

    def next(self) -> bytes | None:
        """The body of the next whole frame, or None; raises FrameError by its length alone."""
        if len(self._data) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._data)
        if size > MAX_FRAME:
            raise FrameError(f"a frame of {size} bytes is larger than {MAX_FRAME}")
        end = _LENGTH.size + size
        if len(self._data) < end:
            return None
        body = bytes(self._data[_LENGTH.size : end])
        del self._data[:end]
        return body

    @property
    def partial(self) -> int:
        """Bytes that belong to a frame that has not ended."""
        return len(self._data)


def read_command(sock: socket.socket) -> ToWorker | None:
    """The parent's next command, waiting for it; None when the parent has gone."""
    head = _exactly(sock, _LENGTH.size)
    if head is None:
        return None
    body = _exactly(sock, _LENGTH.unpack(head)[0])
    return None if body is None else command(json.loads(body))


def _exactly(sock: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        got = sock.recv(min(size - len(parts), 1 << 20))
        if not got:
            return None
        parts += got
    return bytes(parts)


def command(raw: dict[str, Any]) -> ToWorker:
    """A command from its JSON object; raises FrameError for one of another protocol."""
    match raw.pop("type", None):
        case "load":
            if raw.get("protocol") != PROTOCOL:
                raise FrameError(f"protocol {raw.get('protocol')} is not {PROTOCOL}")
            engine = raw.pop("engine")
            engine["target"], engine["draft"] = tuple(engine["target"]), tuple(engine["draft"])
            affinity = raw.pop("affinity")
            return Load(
                engine=EngineConfig(**engine),
                settings=Settings(**raw.pop("settings")),
                affinity=None if affinity is None else tuple(affinity),
                **raw,
            )
        case "run":
            sampling, stop = SamplingConfig(**raw.pop("sampling")), tuple(raw.pop("stop"))
            return Run(sampling=sampling, stop=stop, **raw)
        case "cancel":
            return Cancel(**raw)
        case "close":
            return Close(**raw)
        case other:
            raise FrameError(f"there is no command `{other}`")
