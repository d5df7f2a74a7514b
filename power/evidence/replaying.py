"""Running the samples of a package again: each arm and prompt once, claim against claim.

All rounds of an arm and prompt have one output, or the bench had failed; so one
replay of each shows whether all of them repeat here. A quality matrix counts what did
not repeat; of it the first run is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from power.diagnostics import Diagnostic, PowerError
from power.evidence.derive import Read, reader
from power.evidence.package import Package
from power.evidence.quality_report import Matrix
from power.evidence.report import ArmPart, Report
from power.plan.lock import loads
from power.receipt import replay as receipts
from power.receipt.trust import Trust
from power.receipt.verify import verify_receipt
from power.runner.batch import Chat, rendered_line
from power.runner.prompts import Prompt, parse_prompts
from power.runner.runner import Runner

OpenPlan = Callable[[str, bool], AbstractContextManager[tuple[Runner, Chat]]]
"""Starts a fresh worker with a lock file of the package; the flag: the run is a control run."""


@dataclass(frozen=True, slots=True)
class Replays:
    """How many samples were run again, and what differed without mattering."""

    samples: int
    notes: tuple[str, ...]


def replay_package(
    package: Package,
    trust: Trust,
    open_plan: OpenPlan,
    progress: Callable[[int, int], None] | None = None,
) -> Replays:
    """Run every arm on every prompt once more and compare the claims.

    progress: gets (replays done, replays in all).
    Raises PowerError P641 for the first claim that does not repeat, and what
    `Runner` raises; KeyboardInterrupt when a replay was cancelled.
    """
    read = reader(package.folder)
    again = [
        *(_of_report(report) for report in package.reports.values()),
        *(_of_matrix(matrix) for matrix in package.matrices.values()),
    ]
    total = sum(len(one.receipts) for one in again)
    done, notes = 0, dict[str, None]()
    for one in again:
        for note in _replay_all(one, read, trust, open_plan):
            notes.update(dict.fromkeys(note))
            done += 1
            if progress is not None:
                progress(done, total)
    return Replays(done, tuple(notes))


@dataclass(frozen=True, slots=True)
class _Again:
    """What a report has to run again. receipts: of the first sample, by arm and prompt."""

    arms: Sequence[ArmPart]
    prompts: str
    receipts: Mapping[tuple[str, str], str]


def _of_report(report: Report) -> _Again:
    samples = reversed(report.samples)
    receipts = {(sample.arm, sample.prompt): sample.receipt for sample in samples}
    return _Again(report.arms, report.prompts.file, receipts)


def _of_matrix(matrix: Matrix) -> _Again:
    receipts = {(run.mode, run.task): run.receipt for run in reversed(matrix.runs)}
    return _Again(matrix.modes, matrix.prompts.file, receipts)


def _replay_all(
    again: _Again, read: Read, trust: Trust, open_plan: OpenPlan
) -> Iterator[tuple[str, ...]]:
    """The notes of each replay of one report, as they come."""
    for arm in again.arms:
        sampling = loads(read(arm.lock.file).decode(), arm.lock.file).sampling
        prompts = parse_prompts(read(again.prompts), Path(again.prompts), sampling, chat=True)
        with open_plan(arm.lock.file, arm.control) as (runner, chat):
            for prompt in prompts:
                receipt = again.receipts[arm.name, prompt.id]
                place = f"{receipt}: arm `{arm.name}`, prompt `{prompt.id}`"
                yield _replay(receipt, place, prompt, read, trust, runner, chat)


def _replay(  # noqa: PLR0913, PLR0917 - the parts of one replay
    receipt: str, place: str, prompt: Prompt, read: Read, trust: Trust, runner: Runner, chat: Chat
) -> tuple[str, ...]:
    verified = verify_receipt(read(receipt), trust, name=receipt)
    asked = verified.statement.predicate.request
    request = receipts.recover_request(asked, rendered_line(prompt, chat), prompt.stop)
    try:
        return receipts.replay(verified, runner, request).notes
    except PowerError as error:
        raise PowerError(tuple(_placed(d, place) for d in error.diagnostics)) from error


def _placed(diagnostic: Diagnostic, place: str) -> Diagnostic:
    """With the sample as its place, where it is about the claim."""
    return replace(diagnostic, place=place) if diagnostic.code == "P641" else diagnostic
