"""The worker's loop, in this process: a thread in the worker's place at the end of a socket."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from power.backends.errors import EngineError
from power.backends.interface import EngineConfig, SamplingConfig
from power.diagnostics import Diagnostic, PowerError
from power.runner.frames import parse_frame
from power.runner.messages import (
    Alive,
    Cancel,
    Close,
    Done,
    Emit,
    FromWorker,
    Load,
    Prefilled,
    Progress,
    Ready,
    Refused,
    Run,
    ToWorker,
)
from power.runner.protocol import FrameBuffer, encode
from power.runner.worker import Link, explain, serve
from power.speculation.outcome import Finish, Phase, Settings


class Parent:
    """The parent's end: commands in, messages out."""

    def __init__(self, content: bytes) -> None:
        self._artifact = os.memfd_create("artifact")
        os.write(self._artifact, content)
        self.socket, self._theirs = socket.socketpair()
        self.socket.settimeout(20)
        self.orphaned = threading.Event()
        self._frames = FrameBuffer()
        link = Link(self._theirs, self.orphaned.set)
        self._worker = threading.Thread(target=serve, args=(link,))
        self._worker.start()

    def say(self, *commands: ToWorker) -> None:
        for command in commands:
            self.socket.sendall(encode(command))

    def hear(self) -> FromWorker:
        while (body := self._frames.next()) is None:
            data = self.socket.recv(1 << 16)
            assert data, "the worker said nothing more"
            self._frames.feed(data)
        return parse_frame(body)

    def hear_until(self, kind: type[FromWorker]) -> list[FromWorker]:
        heard = [self.hear()]
        while not isinstance(heard[-1], kind):
            heard.append(self.hear())
        return heard

    def load(self, *, beat_s: float = 60.0) -> Load:
        return Load(
            backend="rogue",
            engine=EngineConfig(
                target=(self._artifact,), strategy="prompt-lookup", prefill_batch=4
            ),
            settings=Settings(3, 0, 3, 3, 512),
            affinity=None,
            nice=0,
            require=(),
            beat_s=beat_s,
        )

    def ended(self) -> bool:
        self._worker.join(20)
        return not self._worker.is_alive()

    def close(self) -> None:
        self.socket.close()
        assert self.ended()
        assert self.orphaned.wait(20)
        self._theirs.close()
        os.close(self._artifact)


def run(text: str, number: int = 1, **changes: Any) -> Run:
    values: dict[str, Any] = {
        "special": False,
        "sampling": SamplingConfig(),
        "control": False,
        "max_tokens": 8,
        "stop": (),
        "clock_ns": 0,
    }
    return Run(number=number, text=text, **(values | changes))


@pytest.fixture
def start(rogue_installed: None) -> Iterator[Callable[..., Parent]]:
    parents = []

    def make(content: bytes = b"weights") -> Parent:
        parents.append(Parent(content))
        return parents[-1]

    yield make
    for parent in parents:
        parent.close()


def test_load_run_close(start: Callable[..., Parent]) -> None:
    parent = start()
    parent.say(parent.load(), run("copy:abc"), run("copy:xyz", 2, stop=("z",)), Close())
    assert [type(m) for m in parent.hear_until(Ready)] == [Progress, Progress, Ready]
    alive, read, *emits, first = parent.hear_until(Done)
    assert alive == Alive(calls=3)  # 8 tokens in chunks of 4, and the first pass
    assert read == Prefilled(4, 7)  # the last token of the prompt is the anchor
    assert b"".join(m.text for m in emits if isinstance(m, Emit)) == b"abcabcab"
    assert isinstance(first, Done)
    assert (first.number, first.finish, first.proposer_width) == (1, Finish.LENGTH, 3)
    assert first.counters.phases_ns[Phase.TOKENISE] > 0
    assert first.first_token_ns is not None
    assert first.first_tokens == 4  # a whole proposal of three, and the bonus
    assert sum(first.counters.phases_ns.values()) <= first.wall_ns
    second = parent.hear_until(Done)[-1]
    assert isinstance(second, Done)
    assert (second.number, second.finish, second.text) == (2, Finish.STOP, b"xy")
    assert parent.ended()


def test_a_sign_of_life_comes_between_calls(start: Callable[..., Parent]) -> None:
    parent = start()
    parent.say(parent.load(beat_s=0.0), run("copy:abc", control=True), Close())
    parent.hear_until(Ready)
    heard = parent.hear_until(Done)
    assert heard.count(Alive()) >= 8  # at least one a pass


def test_a_cancel_counts_for_its_request_alone(start: Callable[..., Parent]) -> None:
    parent = start()
    parent.say(parent.load(), Cancel(2))
    parent.hear_until(Ready)
    finishes = []
    for number in (1, 2, 3):
        parent.say(run("copy:abc", number))
        done = parent.hear_until(Done)[-1]
        assert isinstance(done, Done)
        finishes.append(done.finish)
    # request 1 came before the cancelled one: a cancel is for all up to its number
    assert finishes == [Finish.CANCELLED, Finish.CANCELLED, Finish.LENGTH]
    parent.say(Close())


def test_a_failed_load_is_told_and_ends(start: Callable[..., Parent]) -> None:
    parent = start(b"load!memory")
    parent.say(parent.load())
    refused = parent.hear_until(Refused)[-1]
    assert isinstance(refused, Refused)
    assert [d.code for d in refused.diagnostics] == ["P506"]
    assert parent.ended()


def test_a_failed_request_ends_the_worker_a_refused_one_does_not(
    start: Callable[..., Parent],
) -> None:
    parent = start()
    parent.say(parent.load(), run("token!refuse"), run("", 2), run("pass1!surprise", 3))
    for code in ("P515", "P513", "P507"):
        refused = parent.hear_until(Refused)[-1]
        assert isinstance(refused, Refused)
        assert [d.code for d in refused.diagnostics] == [code]
    assert parent.ended()


def test_nothing_runs_before_a_load(start: Callable[..., Parent]) -> None:
    parent = start()
    parent.say(run("copy:abc"))
    assert parent.ended()


def test_a_device_that_is_asked_for_is_looked_for_before_a_model_is_read(
    start: Callable[..., Parent],
) -> None:
    parent = start()
    parent.say(replace(parent.load(), require=("vulkan",)))
    refused = parent.hear()  # no progress came before
    assert isinstance(refused, Refused)
    assert [d.code for d in refused.diagnostics] == ["P511"]
    assert parent.ended()


def test_a_command_that_cannot_be_read_ends_the_worker(start: Callable[..., Parent]) -> None:
    parent = start()
    body = b'{"type": "no-such"}'
    parent.socket.sendall(len(body).to_bytes(4, "big") + body)
    assert parent.ended()
    assert parent.orphaned.is_set()


class TestExplain:
    def test_a_power_error_speaks_for_itself(self) -> None:
        found = (Diagnostic("P514", "long"), Diagnostic("P513", "none"))
        assert explain(PowerError(found)) == found

    def test_the_engines_words_are_one_line(self) -> None:
        (diagnostic,) = explain(EngineError("load", "refused", "a: b\nc: d"))
        assert (diagnostic.code, diagnostic.found) == ("P540", "a: b | c: d")
        (diagnostic,) = explain(EngineError("load", "refused"))
        assert diagnostic.found is None

    def test_memory(self) -> None:
        assert [d.code for d in explain(MemoryError())] == ["P506"]

    def test_a_surprise_leaves_its_traceback_in_the_log(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (diagnostic,) = explain(LookupError("no row"))
        assert (diagnostic.code, diagnostic.found) == ("P507", "no row")
        assert "LookupError: no row" in capsys.readouterr().err
