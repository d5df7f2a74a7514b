"""Running the samples of a package again: each arm and prompt once, claim against claim.

All rounds of an arm and prompt have one output, or the bench had failed; so one
replay of each shows whether all of them repeat here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from power.diagnostics import Diagnostic, PowerError
from power.evidence.derive import Read, reader
from power.evidence.package import Package
from power.evidence.report import Report
from power.evidence.samples import Sample
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
    total = sum(len(report.by_prompt) for report in package.reports.values())
    done, notes = 0, dict[str, None]()
    for report in package.reports.values():
        for note in _replay_report(report, read, trust, open_plan):
            notes.update(dict.fromkeys(note))
            done += 1
            if progress is not None:
                progress(done, total)
    return Replays(done, tuple(notes))


def _replay_report(
    report: Report, read: Read, trust: Trust, open_plan: OpenPlan
) -> Iterator[tuple[str, ...]]:
    """The notes of each replay of one report, as they come."""
    first: dict[tuple[str, str], Sample] = {}
    for sample in report.samples:
        first.setdefault((sample.arm, sample.prompt), sample)
    for arm in report.arms:
        sampling = loads(read(arm.lock.file).decode(), arm.lock.file).sampling
        path = Path(report.prompts.file)
        prompts = parse_prompts(read(report.prompts.file), path, sampling, chat=True)
        with open_plan(arm.lock.file, arm.control) as (runner, chat):
            for prompt in prompts:
                yield _replay(first[arm.name, prompt.id], prompt, read, trust, runner, chat)


def _replay(  # noqa: PLR0913, PLR0917 - the parts of one replay
    sample: Sample, prompt: Prompt, read: Read, trust: Trust, runner: Runner, chat: Chat
) -> tuple[str, ...]:
    verified = verify_receipt(read(sample.receipt), trust=trust, name=sample.receipt)
    asked = verified.statement.predicate.request
    request = receipts.recover_request(asked, rendered_line(prompt, chat), prompt.stop)
    try:
        return receipts.replay(verified, runner, request).notes
    except PowerError as error:
        raise PowerError(tuple(_placed(d, sample) for d in error.diagnostics)) from error


def _placed(diagnostic: Diagnostic, sample: Sample) -> Diagnostic:
    """With the sample as its place, where it is about the claim."""
    if diagnostic.code != "P641":
        return diagnostic
    place = f"{sample.receipt}: arm `{sample.arm}`, prompt `{sample.prompt}`"
    return replace(diagnostic, place=place)
