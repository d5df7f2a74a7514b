"""The quality matrix from its runs to its gates: each count, each gate, refusals, interruptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import PowerError
from power.evidence.bench import Arm, Bench
from power.evidence.derive import gather, reader
from power.evidence.executor import InOrder, Runs
from power.evidence.layout import Layout
from power.evidence.matrix import build_matrix
from power.evidence.parts import FileRef
from power.evidence.quality import derive_matrix, run_matrix
from power.evidence.quality_report import Matrix, Pair
from power.evidence.report import Sources
from power.evidence.samples import Measured
from power.evidence.tasks.read import parse_tasks
from power.receipt.digests import token_ids_sha256
from power.receipt.trust import trust_in
from tests.evidence.conftest import KEY, Scripted
from tests.evidence.matrices import TASKS, asked, ending_plan, matrix, run
from tests.published import own_problems

TRUST = trust_in(KEY.public_key(), "test")


def codes(error: PowerError) -> list[str]:
    return [d.code for d in error.diagnostics]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Two repetitions of a control and its plan, which agree in everything."""
    scripted = Scripted(tmp_path_factory.mktemp("matrix"))
    bench = matrix(scripted)
    run(scripted, bench)
    return gather(bench.layout, reader(scripted.folder), TRUST, "tasks")


Told = Mapping[tuple[str, str], str | Sequence[str]]
"""What a mode says to a task: one text, or one a repetition; `…` at its end: it was cut."""


def told(sources: Sources, said: Told) -> Matrix:
    """The matrix of `sources` with other outputs; what is not in `said` says `Answer: 5`."""

    def edited(one: Measured) -> Measured:
        sample = one.sample
        texts = said.get((sample.arm, sample.prompt), "Answer: 5")
        text = texts if isinstance(texts, str) else texts[sample.round - 1]
        ids = tuple(text.encode())
        update: dict[str, Any] = {
            "output_ids_sha256": token_ids_sha256(ids),
            "finish": "length" if text.endswith("…") else "end",
            "tokens": len(ids),
        }
        sample = sample.model_copy(update=update)
        return replace(one, sample=sample, ids=ids, output=text.removesuffix("…").encode())

    edit = replace(sources, measured=[edited(one) for one in sources.measured])
    return build_matrix(edit, asked(chat=True), FileRef(file="x.tasks.jsonl", sha256="0" * 64))


def missed(pair: Pair) -> list[str]:
    return [gate.name for gate in pair.missed]


class TestFigures:
    def test_modes_that_agree(self, sources: Sources) -> None:
        found = told(sources, {})
        (pair,) = found.pairs
        assert (pair.outputs.equal, pair.outputs.of) == (4, 4)
        assert pair.answers == pair.untruncated_outputs == pair.untruncated_answers == pair.outputs
        assert (pair.lenient.gains, pair.lenient.losses, pair.lenient.p) == ([], [], "1")
        assert [(s.mode, s.lenient, s.strict, s.of) for s in found.scores] == [
            ("control", 1, 1, 4),
            ("plan", 1, 1, 4),
        ]
        assert (pair.eligible, missed(pair), pair.forks) == (True, [], [])

    def test_a_task_is_right_when_every_repetition_is(self, sources: Sources) -> None:
        found = told(sources, {("plan", "sum"): ["Answer: 5", "Answer: 6"]})
        plan = found.scores[1]
        assert (plan.lenient, plan.stable) == (0, 3)
        (pair,) = found.pairs
        assert pair.lenient.losses == ["sum"]
        assert (pair.answers.equal, pair.outputs.equal) == (3, 3)
        assert [(f.task, f.token) for f in pair.forks] == [("sum", len("Answer: "))]
        standing = found.by_task[0].modes[1]
        assert (standing.stable, standing.answer, standing.lenient) == (False, None, False)

    def test_gains_and_losses_are_counted_by_scorer(self, sources: Sources) -> None:
        found = told(
            sources,
            {
                ("control", "word"): "It says heron.",
                ("plan", "word"): "Answer: heron",
                ("control", "pick"): "Answer: B",
                ("plan", "pick"): "(B)",
                ("plan", "sum"): "So, 6",
            },
        )
        (pair,) = found.pairs
        assert (pair.lenient.gains, pair.lenient.losses) == ([], ["sum"])
        assert (pair.strict.gains, pair.strict.losses) == (["word"], ["sum", "pick"])
        assert (pair.lenient.p, pair.strict.p) == ("1", "1")

    def test_the_probability_is_that_of_the_exact_test(self, sources: Sources) -> None:
        names = ("sum", "pick", "word", "line")
        right = dict(zip(names, ("5", "B", "heron", "a heron waits"), strict=True))
        found = told(
            sources,
            {("control", t): "no" for t in names}
            | {("plan", t): f"Answer: {right[t]}" for t in names},
        )
        assert found.pairs[0].strict.gains == list(names)
        assert found.pairs[0].strict.p == "0.125"  # 2 * (1/2)^4

    def test_another_text_with_the_same_answer(self, sources: Sources) -> None:
        found = told(sources, {("plan", "sum"): "It is 5.\nAnswer: 5"})
        (pair,) = found.pairs
        assert (pair.outputs.equal, pair.answers.equal) == (3, 4)
        assert missed(pair) == ["complete_outputs"]

    def test_what_was_cut_is_left_out_of_untruncated_parity(self, sources: Sources) -> None:
        found = told(
            sources,
            {
                ("plan", "sum"): ["Answer: 5", "Answer: 5 and…"],
                ("control", "pick"): "I…",
                ("plan", "word"): "other",
            },
        )
        (pair,) = found.pairs
        assert (pair.untruncated_outputs.equal, pair.untruncated_outputs.of) == (1, 2)
        assert [score.truncated for score in found.scores] == [1, 1]
        assert found.by_task[0].modes[1].truncated

    def test_nothing_found_in_either_is_the_same_answer(self, sources: Sources) -> None:
        found = told(sources, {(mode, "sum"): f"{mode}!" for mode in ("control", "plan")})
        (pair,) = found.pairs
        assert (pair.outputs.equal, pair.answers.equal) == (3, 4)
        assert found.scores[0].unanswered >= 1

    def test_a_long_answer_is_cut_in_the_report_alone(self, sources: Sources) -> None:
        long = "word " * 60
        found = told(sources, {("control", "word"): long + "a", ("plan", "word"): long + "b"})
        shown = [s.answer or "" for s in found.by_task[2].modes]
        assert [len(answer) for answer in shown] == [200, 200]
        assert found.pairs[0].answers.equal == 3


class TestGates:
    """Every gate can be missed, and a miss is exit 1 with its own words."""

    @pytest.mark.parametrize(
        ("said", "gates"),
        [
            ({("plan", "pick"): "other"}, ["complete_outputs"]),
            (
                {("plan", "sum"): "6"},
                ["complete_outputs", "lenient_losses", "strict_losses"],
            ),
            ({("plan", "sum"): "it is 5"}, ["complete_outputs", "strict_losses"]),
            ({("control", "sum"): ["Answer: 5", "Answer: 5 "]}, ["complete_outputs"]),
        ],
    )
    def test_an_output_that_differs(self, sources: Sources, said: Told, gates: list[str]) -> None:
        (pair,) = told(sources, said).pairs
        assert missed(pair) == gates
        assert not pair.eligible
        assert [(d.code, d.hint is not None) for d in pair.findings()] == [("P883", True)] * len(
            gates
        )

    def test_a_base_that_speculates(self, scripted: Scripted) -> None:
        arms = [
            scripted.arm("context", ending_plan("ngram-context")),
            scripted.arm("lookup", ending_plan("prompt-lookup")),
        ]
        (pair,) = run(scripted, matrix(scripted, arms)).pairs
        assert missed(pair) == ["base"]
        assert [d.path for d in pair.strategy if d.path == "speculation.strategy"]

    def test_plans_that_are_not_the_same_work(self, scripted: Scripted) -> None:
        arms = [
            scripted.arm("off", ending_plan("off")),
            scripted.arm("lookup", ending_plan("prompt-lookup", seed=4)),
        ]
        (pair,) = run(scripted, matrix(scripted, arms)).pairs
        assert missed(pair)[0] == "identity"
        assert [d.path for d in pair.identity] == ["sampling.seed"]

    def test_a_plan_that_proposed_nothing(self, sources: Sources) -> None:
        def silent(one: Measured) -> Measured:
            return replace(one, sample=one.sample.model_copy(update={"drafted": 0}))

        quiet = replace(sources, measured=[silent(one) for one in sources.measured])
        (pair,) = told(quiet, {}).pairs
        assert missed(pair) == ["speculated"]

    def test_nothing_but_cut_texts(self, sources: Sources) -> None:
        """Equal as far as they go, and what they come to was never seen."""
        names = ("sum", "pick", "word", "line")
        cut = {(mode, name): "one two…" for mode in ("control", "plan") for name in names}
        (pair,) = told(sources, cut).pairs
        assert (pair.outputs.equal, pair.untruncated_outputs.of) == (4, 0)
        assert missed(pair) == ["untruncated"]
        (pair,) = told(sources, cut | {("plan", "sum"): "other", ("control", "sum"): "other"}).pairs
        assert (missed(pair), pair.untruncated_outputs.of) == ([], 1)

    def test_each_mode_is_held_against_the_first(self, scripted: Scripted) -> None:
        plan = ending_plan("prompt-lookup")
        arms = [
            scripted.arm("control", plan, control=True),
            scripted.arm("off", ending_plan("off")),
            scripted.arm("plan", plan),
        ]
        found = run(scripted, matrix(scripted, arms, repetitions=3))
        assert [(p.base, p.candidate, p.eligible) for p in found.pairs] == [
            ("control", "off", True),
            ("control", "plan", True),
        ]
        assert scripted.opened == [
            *("control", "off", "plan"),
            *("off", "plan", "control"),
            *("plan", "control", "off"),
        ]


class TestRuns:
    def test_every_run_is_signed_and_judged(self, scripted: Scripted) -> None:
        bench = matrix(scripted)
        steps: list[tuple[int, int]] = []
        found = run(scripted, bench, progress=lambda *step: steps.append(step))
        assert steps == [(n, 16) for n in range(17)]
        assert {(r.round, r.mode, r.task) for r in found.runs} == {
            (number, mode, task)
            for number in (1, 2)
            for mode in ("control", "plan")
            for task in ("sum", "pick", "word", "line")
        }
        assert all((scripted.folder / r.receipt).is_file() for r in found.runs)
        plan = found.scores[1]
        assert plan.drafted == sum(r.drafted for r in found.runs if r.mode == "plan") > 0
        assert (found.tasks.form, found.tasks.count, found.tasks.max_tokens) == ("power", 4, 24)
        assert found.scores[0].stable == found.scores[1].stable == 4

    def test_the_report_is_what_follows_from_its_files(self, scripted: Scripted) -> None:
        bench = matrix(scripted)
        found = run(scripted, bench)
        written = json.loads(bench.layout.report.read_text())
        assert Matrix.model_validate(written) == found
        assert derive_matrix(bench.layout, reader(scripted.folder), TRUST) == found
        names = sorted(path.name for path in scripted.folder.iterdir())
        assert names == [
            "x.journal.jsonl",
            "x.json",
            "x.plan.lock",
            "x.prompts.jsonl",
            "x.receipts",
            "x.tasks.jsonl",
        ]

    def test_the_report_fits_its_schema(self, scripted: Scripted) -> None:
        document = run(scripted, matrix(scripted)).document()
        assert own_problems(document) == []
        document["scores"][0]["lenient"] = "many"
        assert own_problems(document) != []

    def test_a_mode_that_does_not_repeat_is_counted_not_refused(self, scripted: Scripted) -> None:
        bench = matrix(scripted)

        class Unsteady(InOrder):
            def run(self, sessions: Any) -> Runs:
                for session in sessions:
                    lanes = scripted.lanes(bench, seed=session.round)
                    yield from InOrder(lanes, self.prompts, 0).run([session])

        found = run_matrix(bench, Unsteady([], bench.prompts, 0), KEY)
        assert [score.stable < 4 for score in found.scores] == [True, True]
        assert missed(found.pairs[0])[0] == "complete_outputs"

    def test_runs_may_come_in_any_order(self, scripted: Scripted) -> None:
        """Whoever runs the sessions: the matrix has no order but the journal's."""
        bench = matrix(scripted)

        class Shuffled(InOrder):
            def run(self, sessions: Any) -> Runs:
                yield from reversed(list(super().run(sessions)))

        found = run_matrix(bench, Shuffled(scripted.lanes(bench), bench.prompts, 0), KEY)
        assert found.pairs[0].eligible
        assert found.runs[0].round == 2
        assert derive_matrix(bench.layout, reader(scripted.folder), TRUST) == found

    @pytest.mark.parametrize(
        ("fact", "code"),
        [("memory_bytes", None), ("os", None), ("cpu", "P812"), ("physical_cores", "P812")],
    )
    def test_machines_of_one_kind_may_share_it(
        self, scripted: Scripted, fact: str, code: str | None
    ) -> None:
        """What no output depends on may differ from run to run; the processor may not."""
        bench = matrix(scripted)

        class Elsewhere(InOrder):
            def run(self, sessions: Any) -> Runs:
                for finished in super().run(sessions):
                    host = finished.record.host
                    other = {fact: type(getattr(host, fact))(finished.cell.round)}
                    record = replace(finished.record, host=replace(host, **other))
                    yield replace(finished, record=record)

        executor = Elsewhere(scripted.lanes(bench), bench.prompts, 0)
        if code is None:
            assert run_matrix(bench, executor, KEY).pairs[0].eligible
        else:
            with pytest.raises(PowerError) as refused:
                run_matrix(bench, executor, KEY)
            assert codes(refused.value) == [code]

    def test_one_plan_alone(self, scripted: Scripted) -> None:
        with pytest.raises(PowerError) as refused:
            matrix(scripted, [scripted.arm("off", ending_plan("off"))])
        assert codes(refused.value) == ["P704"]

    def test_more_tokens_than_a_plan_allows(self, scripted: Scripted) -> None:
        arms = [
            scripted.arm("off", ending_plan("off")),
            scripted.arm("short", ending_plan("prompt-lookup", max_tokens=20)),
        ]
        with pytest.raises(PowerError) as refused:
            matrix(scripted, arms)
        assert codes(refused.value) == ["P512"]

    def test_a_chat_without_a_template(self, scripted: Scripted) -> None:
        """Found before anything runs, so the same command without `--chat` is not another's."""
        plan = ending_plan("prompt-lookup")
        header = plan.target.header.model_copy(update={"chat_template_sha256": None})
        bare = plan.model_copy(update={"target": plan.target.model_copy(update={"header": header})})
        arms = [scripted.arm("control", plan, control=True), scripted.arm("plan", bare)]
        with pytest.raises(PowerError) as refused:
            matrix(scripted, arms)
        assert codes(refused.value) == ["P560"]
        assert list(scripted.folder.iterdir()) == []
        assert matrix(scripted, arms, questions=asked(chat=False)).design.size == 16


class TestResume:
    def test_other_tasks_are_refused(self, scripted: Scripted) -> None:
        bench = matrix(scripted)
        self.stopped(scripted, bench, 3)
        for other in (asked(chat=False), replace(asked(chat=True), max_tokens=9)):
            with pytest.raises(PowerError) as refused:
                run(scripted, matrix(scripted, questions=other))
            assert codes(refused.value) == ["P802"]

    def test_another_answer_to_the_same_question_is_other_tasks(self, scripted: Scripted) -> None:
        self.stopped(scripted, matrix(scripted), 3)
        edited = parse_tasks(TASKS.replace(b'"5"', b'"6"'), Path("t.jsonl"))
        with pytest.raises(PowerError) as refused:
            run(scripted, matrix(scripted, questions=replace(asked(chat=True), tasks=edited)))
        assert codes(refused.value) == ["P802"]

    def test_it_goes_on_where_it_ended(self, scripted: Scripted) -> None:
        bench = matrix(scripted)
        self.stopped(scripted, bench, 5)
        kept = {p: p.read_bytes() for p in (scripted.folder / "x.receipts").iterdir()}
        found = run(scripted, bench)
        assert (len(kept), len(found.runs)) == (5, 16)
        assert [path for path, data in kept.items() if path.read_bytes() != data] == []

    @pytest.mark.parametrize("after", [0, 7])
    def test_a_killed_matrix_loses_and_repeats_nothing(
        self, scripted: Scripted, after: int
    ) -> None:
        killed = subprocess.run(
            [sys.executable, "-m", "tests.evidence.killed_matrix", scripted.folder, str(after)],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        found = run(scripted, matrix(scripted))
        assert len(found.runs) == len(list((scripted.folder / "x.receipts").iterdir())) == 16
        assert found.pairs[0].eligible

    def stopped(self, scripted: Scripted, bench: Bench, after: int) -> None:
        """Run it until `after` runs are done, then stop as Ctrl-C does."""

        def progress(done: int, _total: int) -> None:
            if done == after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(scripted, bench, progress=progress)


@pytest.mark.parametrize(
    ("name", "edit", "code"),
    [
        ("x.tasks.jsonl", (b'"5"', b'"6"'), "P850"),
        ("x.prompts.jsonl", (b"2 + 3", b"2 + 4"), "P850"),
        ("x.plan.lock", (b"max_tokens = 48", b"max_tokens = 49"), "P850"),
        ("x.journal.jsonl", (b'"max_tokens":24', b'"max_tokens":25'), "P850"),
        ("x.journal.jsonl", (b'"chat":true', b'"chat":false'), "P850"),
        ("x.journal.jsonl", (b'"round":2', b'"round":1'), "P852"),
        ("x.journal.jsonl", (b'"kind":"tasks"', b'"kind":"speed"'), "P803"),
        ("x.receipts/001-plan-0001.sigstore.json", (b'"sig":"', b'"sig":"AA'), "P620"),
    ],
)
def test_what_was_changed_is_seen(
    scripted: Scripted, name: str, edit: tuple[bytes, bytes], code: str
) -> None:
    bench = matrix(scripted)
    run(scripted, bench)
    path = scripted.folder / name
    data = path.read_bytes()
    assert edit[0] in data
    path.write_bytes(data.replace(edit[0], edit[1], 1))
    with pytest.raises(PowerError) as refused:
        derive_matrix(bench.layout, reader(scripted.folder), TRUST)
    assert codes(refused.value)[0] == code


def test_a_bench_is_no_matrix(scripted: Scripted, pair: list[Arm]) -> None:
    bench = scripted.bench(pair, rounds=1, warmup=0)
    scripted.run(bench)
    with pytest.raises(PowerError) as refused:
        derive_matrix(bench.layout, reader(scripted.folder), TRUST)
    assert codes(refused.value) == ["P803"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d["scores"].pop(),
        lambda d: d["pairs"].clear(),
        lambda d: d["by_task"][1]["modes"].reverse(),
        lambda d: d["scores"].reverse(),
    ],
)
def test_parts_of_other_modes_are_no_report(
    scripted: Scripted, edit: Callable[[Any], None]
) -> None:
    document = run(scripted, matrix(scripted, repetitions=1)).document()
    edit(document)
    with pytest.raises(ValueError, match="not those of the modes"):
        Matrix.model_validate(document)


def test_a_layout_has_a_place_for_tasks() -> None:
    assert Layout(Path("a/x.json")).tasks == "x.tasks.jsonl"
