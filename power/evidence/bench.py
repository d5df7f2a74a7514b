"""Running a bench: a quiet host first, then every sample, signed, journaled and watched."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from power.evidence.derive import Basis, Locked, cell_of, derive, measure, reader
from power.evidence.design import Cell, Design
from power.evidence.executor import Executor, Finished
from power.evidence.journal import (
    ArmLine,
    DesignLine,
    OpenJournal,
    SampleLine,
    TasksLine,
    output_fields,
)
from power.evidence.layout import Layout
from power.evidence.parts import Part
from power.evidence.preflight import Preflight, require_quiet
from power.evidence.report import Report
from power.evidence.samples import Watch
from power.evidence.tasks.asking import Questions
from power.plan.files import check_new, write_atomic
from power.plan.model import Plan
from power.receipt import bundle
from power.receipt.certified import verify_certificate
from power.receipt.digests import sha256
from power.receipt.keys import PrivateKey
from power.receipt.private_files import make_folder
from power.receipt.statement import build_statement
from power.receipt.trust import Trust, trust_in
from power.receipt.verify import receipt_id
from power.runner.prompts import Prompt, parse_prompts, prompts_bytes

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: a plan, with or without its proposer, and the certificate that it rests on."""

    name: str
    control: bool
    locked: Locked
    certificate: bytes | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything that decides which samples there are, and where they go.

    prompts_data: the prompts file, byte for byte; `prompts` is what it says. tasks: what
    it was made of, in a quality matrix.
    """

    layout: Layout
    arms: Sequence[Arm]
    prompts_data: bytes
    prompts: Sequence[Prompt]
    rounds: int
    warmup: int
    natural: bool
    tasks: Questions | None = None

    @property
    def design(self) -> Design:
        """Its samples, by number."""
        return Design(len(self.arms), len(self.prompts), self.rounds)

    @property
    def first_line(self) -> DesignLine:
        """The journal's first line."""
        return DesignLine(
            kind="speed" if self.tasks is None else "tasks",
            arms=[
                ArmLine(
                    name=arm.name,
                    control=arm.control,
                    plan_sha256=arm.locked.plan.lock.plan_sha256,
                    lock_sha256=sha256(arm.locked.data),
                )
                for arm in self.arms
            ],
            prompts_sha256=sha256(self.prompts_data),
            prompts=len(self.prompts),
            rounds=self.rounds,
            warmup=self.warmup,
            natural=self.natural,
            tasks=None if self.tasks is None else _tasks_line(self.tasks),
        )


def _tasks_line(asked: Questions) -> TasksLine:
    return TasksLine(sha256=sha256(asked.tasks.data), chat=asked.chat, max_tokens=asked.max_tokens)


def read_inputs(path: Path, plans: Sequence[Plan]) -> tuple[bytes, tuple[Prompt, ...]]:
    """The prompts file, byte for byte, and its prompts, which every plan has to allow.

    Raises PowerError P570, P573 as `read_prompts`.
    """
    data = prompts_bytes(path)
    asked = [parse_prompts(data, path, p.sampling, chat=p.target.header.chats) for p in plans]
    return data, asked[0]


def run_bench(
    bench: Bench,
    executor: Executor,
    key: PrivateKey,
    preflight: Callable[[], Preflight],
    progress: Progress | None = None,
) -> Report:
    """Run what is left of `bench`, write its report, and return it; raises as `take`."""
    layout = bench.layout
    trust = take(bench, executor, key, preflight, progress)
    made = derive(layout, reader(layout.folder), trust)
    write_atomic(layout.report, report_bytes(made), overwrite=False)
    return made


def take(
    bench: Bench,
    executor: Executor,
    key: PrivateKey,
    preflight: Callable[[], Preflight] | None,
    progress: Progress | None = None,
) -> Trust:
    """Run what is left of `bench` into its journal; trust in the key that signed it all.

    Finished samples of an earlier run of the same bench are kept. `preflight` is
    called before any model is loaded, and its record journaled whatever it says;
    None: nothing is timed. progress: gets (samples done, samples in all), also once
    at the start.

    Raises PowerError: P440 the report exists, P802 to P804 the journal, P820 the
    host is not quiet (nothing was loaded), P81x the samples do not make one bench
    (`Watch`); and what runs and receipts raise. KeyboardInterrupt when cancelled.
    """
    check_new(bench.layout.report)
    layout, trust = bench.layout, trust_in(key.public_key(), "the bench's own key")
    with OpenJournal(layout.path(layout.journal), bench.first_line) as journal:
        _keep_inputs(bench)
        recorder = _Recorder(bench, journal, key, _basis(bench, key))
        recorder.take_over()
        report = progress or _silent
        report(len(recorder.done), bench.design.size)
        left = list(bench.design.sessions(recorder.done))
        if left and preflight is not None:
            _check_quiet(journal, preflight())
        with closing(executor.run(left)) as runs:
            for finished in runs:
                recorder.record(finished)
                report(len(recorder.done), bench.design.size)
    return trust


def report_bytes(report: Part) -> bytes:
    """The report as its file holds it."""
    return (json.dumps(report.document(), indent=1) + "\n").encode("ascii")


def _silent(_done: int, _total: int) -> None:
    """For a caller that wants no progress."""


def _basis(bench: Bench, key: PrivateKey) -> Basis:
    trust = trust_in(key.public_key(), "the bench's own key")
    return Basis(
        trust=trust,
        arms={line.name: line for line in bench.first_line.arms},
        locks={arm.name: arm.locked for arm in bench.arms},
        prompts={prompt.id: prompt for prompt in bench.prompts},
        certificates={
            arm.name: verify_certificate(arm.certificate, trust, name=f"of arm {arm.name}")
            for arm in bench.arms
            if arm.certificate is not None
        },
    )


def _keep_inputs(bench: Bench) -> None:
    """Copy plans, certificates and prompts beside the report.

    The journal's first line vouches for plans and prompts, receipts for certificates.
    """
    layout, design = bench.layout, bench.first_line
    for arm, line in zip(bench.arms, design.arms, strict=True):
        owner = design.owner(line)
        _keep(layout.path(layout.lock(owner)), arm.locked.data)
        if arm.certificate is not None:
            _keep(layout.path(layout.certificate(owner)), arm.certificate)
    _keep(layout.path(layout.prompts), bench.prompts_data)
    if bench.tasks is not None:
        _keep(layout.path(layout.tasks), bench.tasks.tasks.data)
    make_folder(layout.path(layout.receipts))


def _keep(path: Path, data: bytes) -> None:
    """Write a copy that is not there yet; P440 for another file of that name."""
    try:
        there = path.read_bytes()
    except OSError:
        there = None
    if there != data:
        write_atomic(path, data, overwrite=False)


def _check_quiet(journal: OpenJournal, found: Preflight) -> None:
    journal.add_preflight(found)
    require_quiet(found, str(journal.path), ", or set limits in the plan's [preflight]")


class _Recorder:
    """Signs, writes and journals each finished sample, and refuses what does not belong."""

    def __init__(self, bench: Bench, journal: OpenJournal, key: PrivateKey, basis: Basis) -> None:
        self.done: set[Cell] = set()
        self._bench = bench
        self._journal = journal
        self._key = key
        self._basis = basis
        self._watch = Watch(natural=bench.natural, timed=bench.tasks is None)

    def take_over(self) -> None:
        """Judge the samples of an earlier run as if they came now."""
        arms = [arm.name for arm in self._bench.arms]
        prompts = [prompt.id for prompt in self._bench.prompts]
        read = reader(self._bench.layout.folder)
        for line in self._journal.samples:
            self._watch.see(measure(line, read(line.receipt), self._basis, self._journal.rendered))
            self.done.add(cell_of(line, arms, prompts))

    def record(self, finished: Finished) -> None:
        """Keep one sample; one that is there already is left out."""
        cell, request, record = finished.cell, finished.request, finished.record
        if cell in self.done:
            return
        bench, arm = self._bench, self._bench.arms[cell.arm]
        prompt = bench.prompts[cell.prompt]
        plan, data = arm.locked.plan, arm.locked.data
        statement = build_statement(plan, data, request, record, certificate=arm.certificate)
        receipt = bundle.sign(statement, self._key)
        name = bench.layout.receipt(cell.round, arm.name, cell.prompt)
        # What a kill between here and the journal leaves behind is written again.
        write_atomic(bench.layout.path(name), receipt, overwrite=True)
        if prompt.messages is not None:
            self._journal.add_prompt(prompt.id, request.text)
        line = SampleLine(
            round=cell.round,
            arm=arm.name,
            prompt=prompt.id,
            receipt=name,
            receipt_id=receipt_id(bundle.decode(receipt).payload),
            ids=list(record.ids),
            **output_fields(record.text),
        )
        self._journal.add_sample(line)
        self.done.add(cell)
        self._watch.see(measure(line, receipt, self._basis, self._journal.rendered))
