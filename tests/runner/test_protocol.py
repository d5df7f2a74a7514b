"""Frames: what is sent arrives, however it is cut; what is no frame is refused."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.backends.interface import EngineConfig, EngineIdentity, SamplingConfig
from power.diagnostics import Diagnostic, Span
from power.runner.frames import parse_frame
from power.runner.messages import (
    Advice,
    Alive,
    Cancel,
    Close,
    Curve,
    CurveRead,
    Done,
    Emit,
    FromWorker,
    Load,
    PassShape,
    Prefilled,
    Progress,
    Ready,
    Refused,
    Round,
    RowBits,
    Rows,
    RowsRead,
    Run,
    Timed,
    ToWorker,
    Trial,
    Tried,
    Walk,
)
from power.runner.protocol import MAX_FRAME, FrameBuffer, FrameError, command, encode, read_command
from power.speculation.outcome import Counters, Finish, Phase, Settings

DONE = Done(
    number=3,
    prompt_ids=(1, 2),
    ids=(3,),
    text=b"\xff\0a",
    finish=Finish.STOP,
    proposer_width=7,
    counters=Counters(rounds=2, widths=[(7, 2)], phases_ns={Phase.VERIFY: 5}),
    wall_ns=10,
    first_token_ns=None,
    first_tokens=0,
    peak_rss_bytes=1 << 40,
)
FROM_WORKER: list[FromWorker] = [
    Progress(0.25),
    Ready(EngineIdentity("p", "1", "2", {"lib.so": "ab"}, ["CPU"], "info"), ("a note",)),
    Alive(calls=4),
    Prefilled(512, 900),
    Emit(bytes(range(256))),
    DONE,
    Tried(DONE, ("0.125000",), ((4, 5), ()), (Round(7, 2, 1, 10, 20, 40),)),
    RowsRead(5, (Walk(32, 1, (RowBits("ab" * 32, 4, "1.500000"),)),)),
    CurveRead(6, (Timed(32, 8, 0, (5, 6), (3, 3)),), (Timed(32, 7, 3, (1, 2), (3, 4)),)),
    Refused((Diagnostic("P514", "long", (Span("a", 1, 2),), "here", "a", "b", "do"),)),
]
RUN = Run(1, "prompt \u00e9\0", True, SamplingConfig(top_k=3), False, 9, ("x", "é"), 123)
TO_WORKER: list[ToWorker] = [
    Load(
        backend="b",
        engine=EngineConfig(target=(3, 4), draft=(5,), extra={"a": {"b": 1}}),
        settings=Settings(7, 0, 6, 6, 512),
        affinity=(0, 2),
        nice=-5,
        require=("cuda",),
        beat_s=0.5,
    ),
    RUN,
    Trial(RUN, Advice("oracle", (1, 2), 3), rows=0, margins=True, rounds=True),
    Rows(5, (1, 2, 3), (1,), 2, (PassShape(8, 2, 1),)),
    Curve(6, (1, 2, 3), (1,), (1, 2), (1,), 5, 1),
    Cancel(4),
    Close(),
]


def test_every_message_is_tried_here() -> None:
    assert {type(m) for m in FROM_WORKER} == set(get_args(FromWorker))
    assert {type(m) for m in TO_WORKER} == set(get_args(ToWorker))


@pytest.mark.parametrize("message", FROM_WORKER, ids=lambda m: m.type)
def test_what_a_worker_sends_arrives(message: FromWorker) -> None:
    buffer = FrameBuffer()
    buffer.feed(encode(message))
    body = buffer.next()
    assert body is not None
    assert parse_frame(body) == message
    assert buffer.next() is None


@pytest.mark.parametrize("message", TO_WORKER, ids=lambda m: m.type)
def test_what_a_parent_sends_arrives(message: ToWorker) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(encode(message))
        assert read_command(theirs) == message
        ours.sendall(encode(message)[:-1])
        ours.close()
        assert read_command(theirs) is None


@given(st.lists(st.binary(), max_size=5), st.lists(st.integers(1, 40), min_size=1))
def test_frames_are_whole_however_they_are_cut(texts: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(encode(Emit(text)) for text in texts)
    buffer, found, at, turn = FrameBuffer(), [], 0, 0
    while at < len(stream):
        buffer.feed(stream[at : at + cuts[turn % len(cuts)]])
        at, turn = at + cuts[turn % len(cuts)], turn + 1
        while (body := buffer.next()) is not None:
            found.append(parse_frame(body))
    assert found == [Emit(text) for text in texts]


def test_a_frame_is_refused_by_its_length_alone() -> None:
    buffer = FrameBuffer()
    buffer.feed(struct.pack(">I", MAX_FRAME + 1))
    with pytest.raises(FrameError, match="larger than"):
        buffer.next()


def test_a_message_that_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("power.runner.protocol.MAX_FRAME", 100)
    with pytest.raises(FrameError, match="larger than 100"):
        encode(Emit(b"x" * 100))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b'{"type": "run"}',
        b'{"type": "emit"}',
        b'{"type": "emit", "text": 1}',
        b'{"type": "emit", "text": "a"}',
        b'{"type": "emit", "text": "YQ==", "more": 1}',
        b'{"type": "alive", "calls": "1"}',
        b'{"type": "alive", "calls": true}',
        b'{"type": "progress", "fraction": "0.5"}',
        b'{"type": "refused", "diagnostics": []}',
        b'{"type": "refused", "diagnostics": [{"code": "P999", "message": "m"}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_frame_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError):
        parse_frame(body)


@pytest.mark.parametrize(
    "change",
    [
        {"number": "3"},
        {"ids": [1.5]},
        {"ids": None},
        {"text": "no base64!"},
        {"finish": "bored"},
        {"wall_ns": None},
        {"counters": {"rounds": "2"}},
        {"counters": {"unknown": 2}},
        {"first_token_ns": 0.5},
    ],
)
def test_a_record_with_one_wrong_field_is_refused(change: dict[str, Any]) -> None:
    body = json.loads(encode(DONE)[4:])
    parse_frame(json.dumps(body).encode())
    with pytest.raises(FrameError, match=next(iter(change))):
        parse_frame(json.dumps(body | change).encode())


@pytest.mark.parametrize("raw", [{}, {"type": "emit"}])
def test_a_command_of_another_protocol_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(FrameError):
        command(raw)
