"""A bench from its first worker to its report: order, figures, refusals, interruptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.evidence.bench import Arm, Bench, run_bench
from power.evidence.derive import derive, reader
from power.evidence.design import Cell, Session
from power.evidence.executor import InOrder, Runs
from power.evidence.journal import OpenJournal
from power.evidence.preflight import Limits, Preflight, judge
from power.evidence.report import Report
from power.receipt.trust import trust_in
from tests.evidence.conftest import KEY, PROMPTS, QUIET, Scripted, seen
from tests.receipt.scripted import scripted_plan

TRUST = trust_in(KEY.public_key(), "test")


def codes(error: PowerError) -> list[str]:
    return [d.code for d in error.diagnostics]


def test_a_pair_is_alternated_and_every_sample_signed(scripted: Scripted, pair: list[Arm]) -> None:
    bench = scripted.bench(pair)
    steps: list[tuple[int, int]] = []
    report = scripted.run(bench, progress=lambda *step: steps.append(step))
    assert scripted.opened == ["control", "plan", "plan", "control"]
    assert steps == [(n, 8) for n in range(9)]
    assert [(s.round, s.arm, s.prompt) for s in report.samples] == [
        (1, "control", "sea"),
        (1, "control", "2"),
        (1, "plan", "sea"),
        (1, "plan", "2"),
        (2, "plan", "sea"),
        (2, "plan", "2"),
        (2, "control", "sea"),
        (2, "control", "2"),
    ]
    assert {s.finish for s in report.samples} == {"length"}
    assert [s.tokens for s in report.samples[:2]] == [48, 20]
    for sample in report.samples:
        assert (scripted.folder / sample.receipt).is_file()
        assert sum(sample.phases_us.values()) == sample.wall_us


def test_arms_of_one_plan_share_a_worker_and_take_turns(
    scripted: Scripted, pair: list[Arm]
) -> None:
    """A worker of its own for another plan; each round has fresh ones."""
    other = scripted.arm("other", scripted_plan("ngram-context"))
    bench = scripted.bench([*pair, other])
    report = scripted.run(bench, share=True)
    assert scripted.opened == ["plan", "other", "plan", "other"]
    assert [(s.round, s.arm, s.prompt) for s in report.samples] == [
        (1, "control", "sea"),
        (1, "plan", "sea"),
        (1, "control", "2"),
        (1, "plan", "2"),
        (1, "other", "sea"),
        (1, "other", "2"),
        (2, "plan", "sea"),
        (2, "control", "sea"),
        (2, "plan", "2"),
        (2, "control", "2"),
        (2, "other", "sea"),
        (2, "other", "2"),
    ]
    assert [arm.strategy for arm in report.arms] == ["off", "prompt-lookup", "ngram-context"]
    assert all(s.rounds == s.tokens for s in report.samples if s.arm == "control")


def test_figures_follow_from_the_samples(scripted: Scripted, pair: list[Arm]) -> None:
    report = scripted.run(scripted.bench(pair))
    control, plan = report.of("control"), report.of("plan")
    assert (control.tokens_per_pass, control.acceptance, control.drafted) == ("1", None, 0)
    assert float(plan.tokens_per_pass) == round(136 / plan.rounds, 3) > 1
    assert plan.accepted == sum(plan.accepted_by_position)
    assert plan.acceptance == f"{plan.accepted / plan.drafted:.4f}".rstrip("0")
    mine = [s for s in report.samples if s.arm == "plan"]
    rates = [float(s.decode_tok_s or "nan") for s in mine]
    assert plan.decode_tok_s is not None
    assert [float(plan.decode_tok_s.minimum), float(plan.decode_tok_s.maximum)] == [
        min(rates),
        max(rates),
    ]
    expected = sum(s.tokens for s in mine) / sum(s.wall_us for s in mine) * 1e6
    assert float(plan.request_tok_s) == pytest.approx(expected, abs=5e-4)


def test_the_rate_counts_what_came_after_the_first_commit(
    scripted: Scripted, pair: list[Arm]
) -> None:
    report = scripted.run(scripted.bench(pair))
    for sample in report.samples:
        steady = (sample.tokens - sample.first_tokens) / (sample.wall_us - sample.first_token_us)
        assert float(sample.decode_tok_s or "nan") == pytest.approx(steady * 1e6, abs=5e-4)


def test_the_report_is_what_follows_from_its_files(scripted: Scripted, pair: list[Arm]) -> None:
    bench = scripted.bench(pair)
    report = scripted.run(bench)
    written = json.loads(bench.layout.report.read_text())
    assert Report.model_validate(written) == report
    assert derive(bench.layout, reader(scripted.folder), TRUST) == report


def test_a_control_and_its_plan_share_one_copy_of_the_plan(
    scripted: Scripted, pair: list[Arm]
) -> None:
    report = scripted.run(scripted.bench(pair))
    assert [arm.lock.file for arm in report.arms] == ["x.plan.lock", "x.plan.lock"]
    assert [arm.strategy for arm in report.arms] == ["off", "prompt-lookup"]
    names = sorted(path.name for path in scripted.folder.iterdir())
    assert names == ["x.journal.jsonl", "x.json", "x.plan.lock", "x.prompts.jsonl", "x.receipts"]


def test_messages_go_through_the_template_and_their_text_is_kept(
    scripted: Scripted, pair: list[Arm]
) -> None:
    data = b'{"id": "c", "messages": [{"role": "user", "content": "one two one two"}]}\n'
    bench = scripted.bench(pair, data=data, rounds=1)
    scripted.run(bench)
    lines = [
        json.loads(x) for x in bench.layout.path(bench.layout.journal).read_text().splitlines()
    ]
    kept = [line["body"] for line in lines if line["line"] == "prompt"]
    assert kept == [{"id": "c", "text": "one two one two"}]


class TestRefusals:
    def test_a_busy_host_loads_nothing_and_keeps_the_record(
        self, scripted: Scripted, pair: list[Arm]
    ) -> None:
        bench = scripted.bench(pair)
        busy = QUIET.model_copy(update={"cpu_percent": [3, 99], "free_memory_bytes": 7})
        with pytest.raises(PowerError) as refused:
            scripted.run(bench, lambda: seen(bench, busy))
        assert codes(refused.value) == ["P820", "P820"]
        assert refused.value.exit_code is ExitCode.NO
        assert scripted.opened == []
        assert not bench.layout.report.exists()
        journal = bench.layout.path(bench.layout.journal).read_text().splitlines()
        kept = json.loads(journal[1])
        assert kept["line"] == "preflight"
        assert [g["name"] for g in kept["body"]["gates"] if not g["met"]] == [
            "cpu_percent",
            "free_memory_bytes",
        ]
        report = scripted.run(bench)  # once it is quiet
        assert [p.passed for p in report.preflight] == [False, True]

    def test_a_busy_host_can_be_measured_on_knowingly(
        self, scripted: Scripted, pair: list[Arm]
    ) -> None:
        bench = scripted.bench(pair)
        busy = QUIET.model_copy(update={"cpu_percent": [99]})
        report = scripted.run(bench, lambda: seen(bench, busy, overridden=True))
        assert [(p.passed, p.overridden) for p in report.preflight] == [(False, True)]

    def test_a_text_that_ends_early(self, scripted: Scripted, pair: list[Arm]) -> None:
        data = b'{"prompt": "one two three one two", "stop": ["dg"]}\n'
        bench = scripted.bench(pair, data=data)
        with pytest.raises(PowerError) as refused:
            scripted.run(bench)
        assert codes(refused.value) == ["P810"]
        with pytest.raises(PowerError) as again:  # it is not run again until it suits
            scripted.run(bench)
        assert codes(again.value) == ["P810"]
        assert scripted.opened == ["control"]
        natural = scripted.bench(pair, "y.json", data=data, natural=True)
        assert {s.finish for s in scripted.run(natural).samples} == {"stop"}

    def test_a_text_without_steady_decoding(self, scripted: Scripted, pair: list[Arm]) -> None:
        data = b'{"prompt": "one two three one two", "max_tokens": 1}\n'
        with pytest.raises(PowerError) as refused:
            scripted.run(scripted.bench(pair, data=data))
        assert codes(refused.value) == ["P813"]

    def test_an_output_that_does_not_repeat(self, scripted: Scripted, pair: list[Arm]) -> None:
        bench = scripted.bench(pair[1:])

        class Unsteady(InOrder):
            def run(self, sessions: Any) -> Runs:
                for session in sessions:
                    lanes = scripted.lanes(bench, seed=session.round)
                    yield from replace(self, lanes=lanes).inner([session])

            def inner(self, sessions: list[Session]) -> Runs:
                return InOrder(self.lanes, self.prompts, self.warmup).run(sessions)

        with pytest.raises(PowerError) as refused:
            run_bench(bench, Unsteady([], bench.prompts, 0), KEY, lambda: seen(bench))
        assert codes(refused.value) == ["P811"]
        assert "from token" in str(refused.value)
        assert refused.value.exit_code is ExitCode.NO

    def test_a_host_that_changes(self, scripted: Scripted, pair: list[Arm]) -> None:
        bench = scripted.bench(pair[1:])

        class Moving(InOrder):
            def run(self, sessions: Any) -> Runs:
                for finished in super().run(sessions):
                    host = replace(finished.record.host, cpu=f"CPU {finished.cell.round}")
                    yield replace(finished, record=replace(finished.record, host=host))

        executor = Moving(scripted.lanes(bench), bench.prompts, 0)
        with pytest.raises(PowerError) as refused:
            run_bench(bench, executor, KEY, lambda: seen(bench))
        assert codes(refused.value) == ["P812"]
        assert refused.value.diagnostics[0].message.startswith("`host.cpu`")
        assert refused.value.exit_code is ExitCode.BROKEN_TRUST

    def test_a_report_that_is_there(self, scripted: Scripted, pair: list[Arm]) -> None:
        bench = scripted.bench(pair)
        bench.layout.report.write_text("mine")
        with pytest.raises(PowerError) as refused:
            scripted.run(bench)
        assert codes(refused.value) == ["P440"]

    def test_a_file_of_another_that_has_a_copys_name(
        self, scripted: Scripted, pair: list[Arm]
    ) -> None:
        bench = scripted.bench(pair)
        mine = bench.layout.path(bench.layout.prompts)
        mine.write_text("mine")
        with pytest.raises(PowerError) as refused:
            scripted.run(bench)
        assert codes(refused.value) == ["P440"]
        assert mine.read_text() == "mine"

    @pytest.mark.parametrize("name", ["x.txt", ".json", "a b.json", "-o.json"])
    def test_a_name_that_fits_no_files(
        self, scripted: Scripted, pair: list[Arm], name: str
    ) -> None:
        with pytest.raises(PowerError) as refused:
            scripted.bench(pair, name)
        assert codes(refused.value) == ["P704"]


class TestResume:
    def stopped(self, scripted: Scripted, bench: Bench, after: int) -> None:
        """Run it until `after` samples are done, then stop as Ctrl-C does."""

        def progress(done: int, _total: int) -> None:
            if done == after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            scripted.run(bench, progress=progress)

    def test_it_goes_on_where_it_ended(self, scripted: Scripted, pair: list[Arm]) -> None:
        bench = scripted.bench(pair)
        self.stopped(scripted, bench, 3)
        kept = {p: p.read_bytes() for p in (scripted.folder / "x.receipts").iterdir()}
        assert len(kept) == 3
        scripted.opened.clear()
        report = scripted.run(bench)
        assert scripted.opened == ["plan", "plan", "control"]
        assert len(report.samples) == 8
        assert {p: p.read_bytes() for p in kept} == kept
        assert len(report.preflight) == 2  # one for each start

    def test_a_finished_bench_without_a_report_gets_it(
        self, scripted: Scripted, pair: list[Arm]
    ) -> None:
        bench = scripted.bench(pair)
        report = scripted.run(bench)
        bench.layout.report.unlink()
        scripted.opened.clear()
        assert scripted.run(bench) == report
        assert scripted.opened == []

    @pytest.mark.parametrize(
        "change", [{"rounds": 3}, {"warmup": 0}, {"natural": True}, {"data": PROMPTS + b" "}]
    )
    def test_another_bench_is_refused(
        self, scripted: Scripted, pair: list[Arm], change: dict[str, Any]
    ) -> None:
        self.stopped(scripted, scripted.bench(pair), 1)
        with pytest.raises(PowerError) as refused:
            scripted.run(scripted.bench(pair, **change))
        assert codes(refused.value) == ["P802" if "data" not in change else "P570"]

    def test_another_plan_is_refused(self, scripted: Scripted, pair: list[Arm]) -> None:
        self.stopped(scripted, scripted.bench(pair), 1)
        other = scripted.arm("plan", scripted_plan("ngram-context"))
        with pytest.raises(PowerError) as refused:
            scripted.run(scripted.bench([pair[0], other]))
        assert codes(refused.value) == ["P802"]

    def test_two_at_once_are_refused(self, scripted: Scripted, pair: list[Arm]) -> None:
        bench = scripted.bench(pair)
        path = bench.layout.path(bench.layout.journal)
        with OpenJournal(path, bench.first_line), pytest.raises(PowerError) as refused:
            scripted.run(bench)
        assert codes(refused.value) == ["P804"]

    def test_a_sample_that_comes_twice_is_kept_once(
        self, scripted: Scripted, pair: list[Arm]
    ) -> None:
        bench = scripted.bench(pair)

        class Stutter(InOrder):
            def run(self, sessions: Any) -> Runs:
                for finished in super().run(sessions):
                    yield finished
                    yield finished

        executor = Stutter(scripted.lanes(bench), bench.prompts, 0)
        assert len(run_bench(bench, executor, KEY, lambda: seen(bench)).samples) == 8

    @pytest.mark.parametrize("after", [0, 1, 5])
    def test_a_killed_bench_loses_and_repeats_nothing(
        self, scripted: Scripted, pair: list[Arm], after: int
    ) -> None:
        killed = subprocess.run(
            [sys.executable, "-m", "tests.evidence.killed_bench", scripted.folder, str(after)],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        report = scripted.run(scripted.bench(pair))
        assert len(report.samples) == 8
        names = [path.name for path in (scripted.folder / "x.receipts").iterdir()]
        assert len(names) == 8


@pytest.mark.parametrize(
    ("name", "edit", "code"),
    [
        ("x.prompts.jsonl", (b"sea the", b"sea thE"), "P850"),
        ("x.plan.lock", (b"max_tokens = 48", b"max_tokens = 49"), "P850"),
        ("x.receipts/001-plan-0001.sigstore.json", (b'"sig":"', b'"sig":"AA'), "P620"),
        ("x.journal.jsonl", (b'"round":2', b'"round":1'), "P852"),
        ("x.journal.jsonl", (b'"line":"sample"', b'"line":"simple"'), "P803"),
        ("x.journal.jsonl", (b'"warmup":1', b'"warmup":-1'), "P803"),
        ("x.journal.jsonl", (b'"warmup":1', b'"warmup":' + b"[" * 100_000), "P803"),
        ("x.journal.jsonl", (b'"receipt_id":"', b'"receipt_id":"0'), "P803"),
        ("x.journal.jsonl", (b"001-plan-0001", b"001-plan-0002"), "P631"),
        ("x.journal.jsonl", (b'"control":true', b'"control":false'), "P851"),
    ],
)
def test_what_was_changed_is_seen(
    scripted: Scripted, pair: list[Arm], name: str, edit: tuple[bytes, bytes], code: str
) -> None:
    bench = scripted.bench(pair)
    scripted.run(bench)
    path = scripted.folder / name
    data = path.read_bytes()
    assert edit[0] in data
    path.write_bytes(data.replace(edit[0], edit[1], 1))
    with pytest.raises(PowerError) as refused:
        derive(bench.layout, reader(scripted.folder), TRUST)
    assert codes(refused.value)[0] == code


def test_a_missing_file_is_named(scripted: Scripted, pair: list[Arm]) -> None:
    bench = scripted.bench(pair)
    scripted.run(bench)
    (scripted.folder / "x.receipts/002-plan-0001.sigstore.json").unlink()
    with pytest.raises(PowerError) as refused:
        derive(bench.layout, reader(scripted.folder), TRUST)
    assert codes(refused.value) == ["P805"]


def test_a_preflight_record_is_one_line_of_the_journal() -> None:
    record = judge(QUIET, Limits(free_memory_bytes=1))
    assert Preflight.model_validate(record.document()) == record
    assert Cell(1, 0, 0) < Cell(1, 0, 1) < Cell(2, 0, 0)
