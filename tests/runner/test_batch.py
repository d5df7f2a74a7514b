"""Batches: strict prompts, an answer a line, and a kill at any byte loses and repeats nothing."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from power.diagnostics import ExitCode, PowerError
from power.plan.model import Sampling
from power.runner.answers import Answers
from power.runner.batch import BatchSummary, run_batch
from power.runner.digests import token_ids_sha256
from power.runner.literal import Rendered
from power.runner.prompts import KEYS, Prompt, read_prompts
from tests.runner.conftest import MakePlan, MakeRunner

ROOT = Path(__file__).parents[2]
LINES = [
    '{"id": "a", "prompt": "copy:one"}',
    '{"prompt": "copy:two", "max_tokens": 3}',
    '{"id": "ü", "prompt": "copy:three", "seed": 5, "stop": ["ee"]}',
    '{"id": "d", "prompt": "copy:f\\u00fcnf"}',
]
BINDING = {"plan_sha256": "1" * 64, "control": False}
TIMES = ("wall_us", "first_token_us", "phases_us")


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


def timeless(out: Path) -> list[dict[str, Any]]:
    """The answers without what two runs never share."""
    lines = out.read_text("utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]


def codes(error: PowerError) -> list[str]:
    return [d.code for d in error.diagnostics]


class TestRun:
    def test_every_prompt_is_answered_in_order(
        self, make_runner: MakeRunner, prompts: Path, out: Path
    ) -> None:
        steps: list[tuple[int, int]] = []
        with make_runner() as runner:
            summary = run_batch(runner, prompts, out, progress=lambda *s: steps.append(s))
        assert summary == BatchSummary(total=4, resumed=0, answered=4, cancelled=False)
        assert steps == [(i, 4) for i in range(5)]
        found = timeless(out)
        assert [line["id"] for line in found] == ["a", "2", "ü", "d"]
        assert [line["text"][:4] for line in found] == ["oneo", "two", "thr", "fünf"]
        assert [line["finish"] for line in found] == ["length", "length", "stop", "length"]
        assert found[1]["tokens"] == found[1]["max_tokens"] == 3
        assert found[1]["ids_sha256"] == token_ids_sha256(list(b"two"))
        assert found[2]["seed"] == 5
        assert {line["plan_sha256"] for line in found} == {"1" * 64}

    def test_the_page_names_every_key(
        self, make_runner: MakeRunner, prompts: Path, out: Path
    ) -> None:
        with make_runner() as runner:
            run_batch(runner, prompts, out)
        page = (ROOT / "docs/reference/batches.md").read_text("utf-8")
        keys = {key for line in out.read_text("utf-8").splitlines() for key in json.loads(line)}
        assert {key for key in keys | KEYS if f"`{key}`" not in page} == set()

    def test_a_finished_batch_runs_nothing_again(
        self, make_runner: MakeRunner, prompts: Path, out: Path
    ) -> None:
        with make_runner() as runner:
            run_batch(runner, prompts, out)
            before = out.read_bytes()
            summary = run_batch(runner, prompts, out)
        assert summary == BatchSummary(total=4, resumed=4, answered=0, cancelled=False)
        assert out.read_bytes() == before

    def test_messages_go_through_the_template(
        self, make_runner: MakeRunner, make_plan: MakePlan, tmp_path: Path, out: Path
    ) -> None:
        """Of a model that has one: else they are refused before anything runs."""
        path = tmp_path / "chat.jsonl"
        path.write_text('{"messages": [{"role": "user", "content": "hey"}], "max_tokens": 3}')

        def chat(messages: Sequence[Mapping[str, Any]]) -> Rendered:
            return Rendered(f"copy:{messages[0]['content']}")

        plan = make_plan()
        with make_runner(plan) as runner, pytest.raises(PowerError, match="chat template"):
            run_batch(runner, path, out, chat=chat)
        assert not out.exists()
        header = plan.target.header.model_copy(update={"chat_template_sha256": "c" * 64})
        target = plan.target.model_copy(update={"header": header})
        with make_runner(plan.model_copy(update={"target": target})) as runner:
            run_batch(runner, path, out, chat=chat)
        assert timeless(out)[0]["text"] == "hey"

    def test_a_cancelled_request_ends_the_batch_without_an_answer(
        self, make_runner: MakeRunner, prompts: Path, out: Path
    ) -> None:
        with make_runner() as runner:
            seen: list[str] = []

            def on_record(prompt: Prompt, _request: object, _record: object) -> None:
                seen.append(prompt.id)
                if len(seen) == 2:
                    runner.cancel()

            summary = run_batch(runner, prompts, out, on_record=on_record)
            assert summary == BatchSummary(total=4, resumed=0, answered=2, cancelled=True)
            assert len(timeless(out)) == 2
            assert run_batch(runner, prompts, out, on_record=on_record).resumed == 2
        assert seen == ["a", "2", "ü", "d"]

    def test_a_failure_names_the_line(
        self, make_runner: MakeRunner, tmp_path: Path, out: Path
    ) -> None:
        path = tmp_path / "prompts.jsonl"
        path.write_text(f'{LINES[0]}\n{{"prompt": "token!abort"}}\n{LINES[1]}\n')
        with make_runner() as runner, pytest.raises(PowerError) as caught:
            run_batch(runner, path, out)
        (diagnostic,) = caught.value.diagnostics
        assert (diagnostic.code, diagnostic.spans[0].line) == ("P518", 2)
        assert len(timeless(out)) == 1

    def test_prompts_and_answers_are_two_files(
        self, make_runner: MakeRunner, prompts: Path
    ) -> None:
        with make_runner() as runner, pytest.raises(PowerError) as caught:
            run_batch(runner, prompts, prompts)
        assert codes(caught.value) == ["P573"]
        assert prompts.read_text("utf-8").splitlines() == LINES


def test_a_killed_batch_goes_on_without_losing_or_repeating(
    make_runner: MakeRunner, make_plan: MakePlan, prompts: Path, out: Path, tmp_path: Path
) -> None:
    """Kill -9 again and again, at the ends of lines and inside them, one process after another."""
    whole = tmp_path / "whole.jsonl"
    with make_runner() as runner:
        run_batch(runner, prompts, whole)
    plan = tmp_path / "plan.json"
    plan.write_text(make_plan().model_dump_json())
    first = len(whole.read_bytes().splitlines(keepends=True)[0])
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    statuses = set()
    for limit in (1, 20, first - 1, first, 1, first + 1, first // 2, first + 300):
        arguments = [str(plan), str(prompts), str(out), str(limit)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.runner.killed_batch", *arguments], check=False, cwd=ROOT
        )
        statuses.add(done.returncode)
    assert -signal.SIGKILL in statuses <= {-signal.SIGKILL, 0}
    with make_runner() as runner:
        summary = run_batch(runner, prompts, out)
    assert summary.total == summary.resumed + summary.answered == 4
    assert timeless(out) == timeless(whole)
    assert {child.pid for child in psutil.Process().children(recursive=True)} == before


class TestAnswers:
    """The file alone."""

    @pytest.fixture
    def asked(self, prompts: Path, make_plan: MakePlan) -> tuple[Prompt, ...]:
        return read_prompts(prompts, make_plan().sampling, chat=False)

    def finish(self, out: Path, asked: Sequence[Prompt]) -> int:
        """Answer what is left; how many lines were there before."""
        with Answers(out, asked, BINDING) as answers:
            resumed = answers.finished
            for prompt in asked[resumed:]:
                text = prompt.text or ""
                digest = hashlib.sha256(text.encode()).hexdigest()
                answers.append(prompt, {"text": text, "text_sha256": digest})
        return resumed

    def refusal(self, out: Path, asked: Sequence[Prompt]) -> PowerError:
        """The refusal of `out`, which is left as it was."""
        before = out.read_bytes() if out.is_file() else None
        with pytest.raises(PowerError) as caught:
            self.finish(out, asked)
        assert before == (out.read_bytes() if out.is_file() else None)
        return caught.value

    def test_every_cut_is_gone_on_with(
        self, out: Path, asked: tuple[Prompt, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("power.runner.line_file.os.fsync", lambda _: None)  # time, not meaning
        self.finish(out, asked)
        whole = out.read_bytes()
        for cut in range(len(whole) + 1):
            out.write_bytes(whole[:cut])
            assert self.finish(out, asked) == whole[:cut].count(b"\n")
            assert out.read_bytes() == whole

    def test_a_hole_of_zeros_is_cut_off(self, out: Path, asked: tuple[Prompt, ...]) -> None:
        self.finish(out, asked[:1])
        whole = out.read_bytes()
        out.write_bytes(whole + bytes(100))
        self.finish(out, asked[:1])
        assert out.read_bytes() == whole

    @pytest.mark.parametrize(
        ("content", "code"),
        [
            (b"my notes", "P572"),
            (b"my notes\n", "P572"),
            (b'{"text": "other"}\n', "P572"),
            (b'{"schema":"power.batch.v1",\n', "P572"),
            pytest.param(
                b'{"schema":"power.batch.v1","id":' + b"[" * 100_000 + b"\n", "P572", id="deep"
            ),
            (b'{"schema":"power.batch.v1","id":"z"}\n', "P571"),
        ],
    )
    def test_a_file_that_is_not_ours_is_left_alone(
        self, out: Path, asked: tuple[Prompt, ...], content: bytes, code: str
    ) -> None:
        out.write_bytes(content)
        error = self.refusal(out, asked)
        assert codes(error) == [code]
        assert error.exit_code is ExitCode.CANNOT_JUDGE

    def test_answers_to_other_prompts_are_refused(
        self, out: Path, asked: tuple[Prompt, ...]
    ) -> None:
        self.finish(out, asked)
        error = self.refusal(out, (asked[0], *asked[2:]))
        assert "line 2 has another `id`" in error.diagnostics[0].message
        assert codes(self.refusal(out, asked[:2])) == ["P571"]

    @pytest.mark.parametrize("change", [{"plan_sha256": "2" * 64}, {"control": True}])
    def test_answers_of_another_plan_are_refused(
        self, out: Path, asked: tuple[Prompt, ...], change: dict[str, Any]
    ) -> None:
        self.finish(out, asked)
        with pytest.raises(PowerError) as caught, Answers(out, asked, {**BINDING, **change}):
            pass
        assert next(iter(change)) in caught.value.diagnostics[0].message

    @pytest.mark.parametrize(
        ("text", "digested", "accepted"),
        [
            ("né", "né".encode(), True),
            ("né", b"ne", False),
            ("n\ufffd", b"n\xc3", True),  # the text does not tell its bytes
            (None, b"", False),
            ("\ud800", b"", False),
        ],
    )
    def test_a_text_has_to_fit_its_digest(
        self,
        out: Path,
        asked: tuple[Prompt, ...],
        text: str | None,
        digested: bytes,
        *,
        accepted: bool,
    ) -> None:
        digest = hashlib.sha256(digested).hexdigest()
        with Answers(out, asked, BINDING) as answers:
            answers.append(asked[0], {"text": text, "text_sha256": digest})
        if accepted:
            assert self.finish(out, asked) == 1
        else:
            assert codes(self.refusal(out, asked)) == ["P572"]

    def test_one_batch_at_a_time(self, out: Path, asked: tuple[Prompt, ...]) -> None:
        with out.open("wb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            assert codes(self.refusal(out, asked)) == ["P573"]

    def test_places_that_cannot_hold_answers(
        self, tmp_path: Path, asked: tuple[Prompt, ...]
    ) -> None:
        os.mkfifo(tmp_path / "fifo")
        for place in (tmp_path, tmp_path / "fifo", tmp_path / "none" / "a", tmp_path / "x\0"):
            with pytest.raises((PowerError, ValueError)) as caught:
                self.finish(place, asked)
            if isinstance(caught.value, PowerError):
                assert codes(caught.value) == ["P573"]

    def test_a_full_disk_leaves_whole_lines(
        self, out: Path, asked: tuple[Prompt, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.finish(out, asked[:2])
        whole = out.read_bytes()
        real = os.write

        def write(fd: int, data: Any) -> int:
            if len(data) < 30:
                raise OSError(28, "No space left on device")
            return real(fd, bytes(data)[:20])

        monkeypatch.setattr("power.runner.line_file.os.write", write)
        with pytest.raises(PowerError, match="No space left"):
            self.finish(out, asked)
        assert out.read_bytes() == whole


class TestPrompts:
    """The strict reader."""

    @pytest.fixture
    def sampling(self, make_plan: MakePlan) -> Sampling:
        return make_plan().sampling

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("", "no JSON"),
            ("no", "no JSON"),
            ("[]", "no object"),
            ('"a"', "no object"),
            ("{}", "either `prompt` or `messages`"),
            ('{"prompt": "a", "messages": []}', "either `prompt` or `messages`"),
            ('{"prompt": 1}', "`prompt` is not text"),
            ('{"prompt": null}', "`prompt` is not text"),
            ('{"prompt": ""}', "the prompt is empty"),
            ('{"prompt": "\\ud800"}', "lone surrogate"),
            ('{"prompt": "a", "temperature": 1}', "unknown key `temperature`"),
            ('{"prompt": "a", "prompt": "b"}', "`prompt` is given more than once"),
            ('{"prompt": "a", "max_tokens": true}', "`max_tokens` is not a whole number"),
            ('{"prompt": "a", "max_tokens": 7.0}', "`max_tokens` is not a whole number"),
            ('{"prompt": "a", "max_tokens": NaN}', "`NaN` is no JSON number"),
            ('{"prompt": "a", "max_tokens": 0}', "plan allows 1 to 32"),
            ('{"prompt": "a", "max_tokens": 33}', "plan allows 1 to 32"),
            ('{"prompt": "a", "seed": -1}', "seed is out of range"),
            ('{"prompt": "a", "seed": 4294967295}', "seed is out of range"),
            ('{"prompt": "a", "stop": "x"}', "`stop` is not a list"),
            ('{"prompt": "a", "stop": [1]}', "something else than text"),
            ('{"prompt": "a", "stop": [""]}', "empty or too long"),
            ('{"prompt": "a", "stop": ' + json.dumps(["x"] * 17) + "}", "too many stop"),
            ('{"prompt": "a", "id": 1}', "`id` is not text"),
            ('{"prompt": "a", "id": ""}', "`id` is empty"),
            ('{"prompt": "a", "id": "first"}', "is that of line 1 too"),
            ('{"messages": [{"role": "user", "content": "a"}]}', "need the model's chat template"),
            ("[" * 100_000, "nested too deeply"),
            ('{"prompt": "a", "seed": ' + "1" * 5000 + "}", "no JSON"),
        ],
    )
    def test_a_bad_line_is_refused_with_its_number(
        self, tmp_path: Path, sampling: Sampling, line: str, words: str
    ) -> None:
        path = tmp_path / "prompts.jsonl"
        path.write_text('{"prompt": "a", "id": "first"}\n' + line + "\n")
        with pytest.raises(PowerError) as caught:
            read_prompts(path, sampling, chat=False)
        (diagnostic,) = caught.value.diagnostics
        assert words in diagnostic.message
        assert (diagnostic.spans[0].file, diagnostic.spans[0].line) == (str(path), 2)
        assert caught.value.exit_code is ExitCode.CANNOT_JUDGE

    def test_all_problems_at_once_but_not_endlessly(
        self, tmp_path: Path, sampling: Sampling
    ) -> None:
        path = tmp_path / "prompts.jsonl"
        path.write_bytes(b"\xff\n{}\n" + b"\n" * 100)
        with pytest.raises(PowerError) as caught:
            read_prompts(path, sampling, chat=False)
        assert codes(caught.value) == ["P570"] * 21
        assert "not UTF-8 at byte 0" in caught.value.diagnostics[0].message
        last = caught.value.diagnostics[-1]
        assert last.message == "82 more problems in these prompts are not shown"
        assert last.place == str(path)

    def test_twenty_problems_are_all_shown(self, tmp_path: Path, sampling: Sampling) -> None:
        path = tmp_path / "prompts.jsonl"
        path.write_bytes(b"\n" * 20 + b'{"prompt": "a"}\n')
        with pytest.raises(PowerError) as caught:
            read_prompts(path, sampling, chat=False)
        assert [d.spans[0].line for d in caught.value.diagnostics] == list(range(1, 21))

    def test_of_another_kind_of_file_one_line_says_enough(
        self, tmp_path: Path, sampling: Sampling
    ) -> None:
        path = tmp_path / "prompts.jsonl"
        path.write_text("Once upon a time\n\nThere was a king\n")
        with pytest.raises(PowerError) as caught:
            read_prompts(path, sampling, chat=False)
        (found,) = caught.value.diagnostics
        assert (found.message, found.spans[0].column) == ("the line is no JSON: Expecting value", 1)

    def test_json_that_breaks_off_is_marked_where_it_does(
        self, tmp_path: Path, sampling: Sampling
    ) -> None:
        path = tmp_path / "prompts.jsonl"
        path.write_text('{"prompt": "a" "id": "b"}\n')
        with pytest.raises(PowerError) as caught:
            read_prompts(path, sampling, chat=False)
        (span,) = caught.value.diagnostics[0].spans
        assert (span.column, span.width, span.source) == (16, 1, '{"prompt": "a" "id": "b"}')

    def test_a_line_that_is_too_long(
        self, tmp_path: Path, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("power.runner.json_line.MAX_LINE", 20)
        path = tmp_path / "prompts.jsonl"
        path.write_text('{"prompt": "12345678901234567890"}')
        with pytest.raises(PowerError, match="too long"):
            read_prompts(path, sampling, chat=False)

    @pytest.mark.parametrize("content", [None, b""])
    def test_no_prompts(self, tmp_path: Path, sampling: Sampling, content: bytes | None) -> None:
        path = tmp_path / "prompts.jsonl"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(PowerError) as caught:
            read_prompts(path, sampling, chat=False)
        assert codes(caught.value) == ["P573" if content is None else "P570"]

    @pytest.mark.parametrize(
        ("place", "words"),
        [("fifo", "it is a pipe"), ("/dev/zero", "it is a device"), (".", "it is a folder")],
    )
    def test_what_is_no_file_of_prompts_is_refused_without_waiting(
        self, tmp_path: Path, sampling: Sampling, place: str, words: str
    ) -> None:
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(PowerError, match=words) as caught:
            read_prompts(tmp_path / place, sampling, chat=False)
        assert codes(caught.value) == ["P573"]

    def test_a_file_that_is_too_large(
        self, tmp_path: Path, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "prompts.jsonl"
        path.write_text('{"prompt": "1"}\n')
        monkeypatch.setattr("power.runner.prompts.MAX_FILE", 16)
        assert len(read_prompts(path, sampling, chat=False)) == 1
        monkeypatch.setattr("power.runner.prompts.MAX_FILE", 15)
        with pytest.raises(PowerError, match="larger than 15 bytes") as caught:
            read_prompts(path, sampling, chat=False)
        assert codes(caught.value) == ["P573"]

    def test_bad_messages_are_refused_before_anything_runs(
        self, tmp_path: Path, sampling: Sampling
    ) -> None:
        path = tmp_path / "prompts.jsonl"
        path.write_text('{"messages": [{"role": "user"}]}')
        with pytest.raises(PowerError) as caught:
            read_prompts(path, sampling, chat=True)
        assert codes(caught.value) == ["P564"]

    def test_the_digest_is_of_what_is_asked_not_of_its_layout(
        self, tmp_path: Path, sampling: Sampling
    ) -> None:
        path = tmp_path / "prompts.jsonl"
        path.write_text(
            '{"prompt": "a", "seed": 1}\n{"seed":1,"id":"x","prompt":"\\u0061"}\n{"prompt": "a"}'
        )
        first, second, third = read_prompts(path, sampling, chat=False)
        assert first.sha256 == second.sha256 != third.sha256
