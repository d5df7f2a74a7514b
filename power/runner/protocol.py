"""How what the parent and the worker say to each other is framed.

A frame is a big-endian u32 length and that many bytes of UTF-8 JSON: one object
with a `type` (`power.runner.messages`). Bytes travel as base64. The two ends are
one version of one package on one host, so there is no version to agree on.
"""

from __future__ import annotations

import json
import socket
import struct
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from power.backends.interface import EngineConfig, SamplingConfig
from power.runner.messages import (
    Advice,
    Cancel,
    Close,
    Curve,
    Emit,
    FromWorker,
    Load,
    PassShape,
    Rows,
    Run,
    ToWorker,
    Trial,
)
from power.speculation.outcome import Costs, Settings

MAX_FRAME = 64 * 1024 * 1024
"""Bytes of a frame's JSON; a larger one is refused before it is read or sent."""

_LENGTH = struct.Struct(">I")


class FrameError(Exception):
    """The other end sent something that is not a frame of this protocol."""


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
    name = raw.pop("type", None)
    if name not in _COMMANDS:
        raise FrameError(f"there is no command `{name}`")
    return _COMMANDS[name](_tuples(raw))


def _load(raw: dict[str, Any]) -> Load:
    engine, settings = _tuples(raw.pop("engine")), raw.pop("settings")
    if settings["costs"] is not None:
        settings["costs"] = Costs(**_tuples(settings["costs"]))
    return Load(engine=EngineConfig(**engine), settings=Settings(**settings), **raw)


def _run(raw: dict[str, Any]) -> Run:
    sampling, plain = SamplingConfig(**raw.pop("sampling")), raw.pop("plain")
    return Run(sampling=sampling, plain=tuple((start, end) for start, end in plain), **raw)


def _trial(raw: dict[str, Any]) -> Trial:
    run, advice = _tuples(raw.pop("run")), _tuples(raw.pop("advice"))
    return Trial(run=_run(run), advice=Advice(**advice), **raw)


def _rows(raw: dict[str, Any]) -> Rows:
    return Rows(shapes=tuple(PassShape(**shape) for shape in raw.pop("shapes")), **raw)


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    """The fields of a message: every list of one is a tuple."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}


_COMMANDS: Mapping[str, Callable[[dict[str, Any]], ToWorker]] = {
    "load": _load,
    "run": _run,
    "trial": _trial,
    "rows": _rows,
    "curve": lambda raw: Curve(**raw),
    "cancel": lambda raw: Cancel(**raw),
    "close": lambda raw: Close(**raw),
}
