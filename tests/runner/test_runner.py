"""Requests through a real worker process, with the rogue engine behaving well."""

from __future__ import annotations

import pytest

from power.diagnostics import ExitCode, PowerError
from power.runner.types import Request
from tests.runner.conftest import MakePlan, MakeRunner


def test_a_request_runs_and_streams(make_runner: MakeRunner, make_plan: MakePlan) -> None:
    parts: list[bytes] = []
    with make_runner(make_plan(max_tokens=5)) as runner:
        record = runner.generate(Request("copy:héé"), parts.append)
    assert b"".join(parts) == record.text == "héé".encode()
    assert record.ids == tuple("héé".encode())
    assert record.prompt_ids == tuple("copy:héé".encode())
    assert record.finish == "length"
    assert record.strategy == "off"
    assert record.seed == 7
    assert record.max_tokens == 5
    assert record.engine.package == "power-rogue"
    assert record.host.threads == 1


def test_phases_add_up_to_the_wall_time(make_runner: MakeRunner) -> None:
    with make_runner() as runner:
        record = runner.generate(Request("copy:abc"))
    assert sum(record.phases_us.values()) == record.wall_us
    assert min(record.phases_us.values()) >= 0
    assert record.first_token_us is not None
    assert 0 <= record.first_token_us <= record.wall_us
    assert record.peak_rss_bytes > 1 << 20


def test_the_prompt_is_followed_chunk_by_chunk(make_runner: MakeRunner) -> None:
    seen: list[tuple[int, int]] = []
    with make_runner() as runner:
        runner.generate(Request("copy:abcdefgh"), on_prefill=lambda *done: seen.append(done))
    assert seen == [(4, 12), (8, 12), (12, 12)]


def test_what_a_chat_template_took_is_part_of_the_request(make_runner: MakeRunner) -> None:
    with make_runner() as runner:
        plain = runner.generate(Request("copy:abc"))
        record = runner.generate(Request("copy:abc", rendering_ns=10**12))
    assert sum(record.phases_us.values()) == record.wall_us > 10**9 > plain.wall_us
    assert record.phases_us["tokenise"] >= 10**9
    assert record.first_token_us is not None
    assert record.first_token_us >= 10**9


def test_a_control_run_has_no_proposer_and_the_same_ids(
    make_runner: MakeRunner, make_plan: MakePlan
) -> None:
    with make_runner(make_plan("prompt-lookup")) as runner:
        fast = runner.generate(Request("copy:abcdef"))
        control = runner.generate(Request("copy:abcdef", control=True))
    assert fast.ids == control.ids
    assert (fast.strategy, control.strategy) == ("prompt-lookup", "off")
    assert fast.counters["accepted"] > 0 == control.counters["drafted"]
    assert fast.counters["rounds"] < control.counters["rounds"]
    assert "phases_ns" not in fast.counters


def test_one_worker_runs_many_requests(make_runner: MakeRunner) -> None:
    with make_runner() as runner:
        texts = [runner.generate(Request(f"copy:{i}", max_tokens=2)).text for i in range(20)]
    assert texts == [f"{i}{i}".encode()[:2] for i in range(20)]


def test_a_refused_request_leaves_the_worker_usable(make_runner: MakeRunner) -> None:
    with make_runner() as runner:
        with pytest.raises(PowerError, match="600 tokens, the context holds 512") as caught:
            runner.generate(Request("x" * 600))
        assert caught.value.exit_code is ExitCode.CANNOT_JUDGE
        assert runner.generate(Request("copy:ok", max_tokens=2)).text == b"ok"


def test_stop_sequences_and_seed_reach_the_engine(make_runner: MakeRunner) -> None:
    with make_runner() as runner:
        record = runner.generate(Request("copy:abcdef", stop=("de",), seed=11))
    assert (record.text, record.finish, record.seed) == (b"abc", "stop", 11)


@pytest.mark.parametrize(
    ("text", "tokens", "shown"),
    [
        ("h\u00e9\u20ac", 6, ["h", "\u00e9", "\u20ac"]),
        ("h\u00e9\u20ac", 2, ["h", "\ufffd"]),  # ends inside a character
        ("h\u00e9\u20ac", 5, ["h", "\u00e9", "\ufffd"]),
        ("a\ufffdb", 5, ["a", "\ufffd", "b"]),  # the model's own U+FFFD
        ("a\ufffdb", 3, ["a", "\ufffd"]),
    ],
)
def test_the_bytes_are_those_of_the_record(
    make_runner: MakeRunner, text: str, tokens: int, shown: list[str]
) -> None:
    """Cut at characters, as they came; the last piece alone may end inside one."""
    parts: list[bytes] = []
    with make_runner() as runner:
        record = runner.generate(Request(f"copy:{text}", max_tokens=tokens), parts.append)
    assert b"".join(parts) == record.text == text.encode()[:tokens]
    assert [part.decode(errors="replace") for part in parts] == shown


def test_the_bytes_of_a_cancelled_request_are_those_of_its_record(make_runner: MakeRunner) -> None:
    parts: list[bytes] = []
    with make_runner() as runner:

        def cancel(part: bytes) -> None:
            parts.append(part)
            runner.cancel()

        record = runner.generate(Request("copy:\u00e9", max_tokens=32), cancel)
    assert b"".join(parts) == record.text
