"""From the files of a bench to its report: everything read, verified, and computed again.

The bench writes what this gives; a verifier compares with it. Neither has another way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NoReturn

from power.diagnostics import PowerError, fail
from power.evidence.design import Cell, Design
from power.evidence.journal import ArmLine, DesignLine, Journal, SampleLine, parse_journal
from power.evidence.layout import Layout
from power.evidence.limits import limits_of
from power.evidence.parts import FileRef
from power.evidence.preflight import judge
from power.evidence.report import Report, Sources, build_report
from power.evidence.samples import Measured, Watch, fits, sample_of
from power.manifest.files import UnreadableError, read_regular
from power.plan import lock
from power.plan.exactness import needs_certificate
from power.plan.model import Plan
from power.receipt.certified import Certified, against_certificate, verify_certificate
from power.receipt.digests import sha256, stop_sha256
from power.receipt.predicate import RequestPart, Statement
from power.receipt.trust import Trust
from power.receipt.verify import verify_receipt
from power.runner.prompts import Prompt, parse_prompts

Read = Callable[[str], bytes]
"""Gives the bytes of a file of the report, by its name."""

FILE_LIMIT = 1 << 30
"""Bytes of a file of a report, which is held in memory."""

_BROKEN = "do not rely on this report: measure again, or get its maker's original files"


@dataclass(frozen=True, slots=True)
class Locked:
    """The plan of an arm, and the bytes of its lock file."""

    plan: Plan
    data: bytes


@dataclass(frozen=True, slots=True)
class Basis:
    """What the samples of a bench are held against. `prompts` by id, the others by arm.

    certificates: of the arms whose plan has one.
    """

    trust: Trust
    arms: Mapping[str, ArmLine]
    locks: Mapping[str, Locked]
    prompts: Mapping[str, Prompt]
    certificates: Mapping[str, Certified]


def derive(layout: Layout, read: Read, trust: Trust) -> Report:
    """The report of a bench that follows from the files of `layout`; raises as `gather`."""
    return build_report(gather(layout, read, trust, "speed"))


def gather(layout: Layout, read: Read, trust: Trust, kind: Literal["speed", "tasks"]) -> Sources:
    """Everything that a report of that kind follows from, read from `layout` and verified.

    Raises PowerError: P803 a damaged journal, P850 a file is not the one that the
    journal names, P851 a sample that its receipt does not bear out, P852 samples
    that are not those of the design, P857 a certificate that is not there; P43x, P570
    and P6xx for plans, prompts, certificates and receipts; P81x as the bench itself
    (`Watch`).
    """
    journal_data = read(layout.journal)
    journal = parse_journal(journal_data, layout.path(layout.journal))
    design = journal.design
    if design is None or design.kind != kind:
        what = "is empty" if design is None else f"is one of `{design.kind}`"
        fail(
            "P803",
            f"the journal {what}",
            place=layout.journal,
            expected=f"one of `{kind}`",
            hint=_BROKEN,
        )
    files = {arm.name: layout.lock(design.owner(arm)) for arm in design.arms}
    locks = {arm.name: _locked(read, files[arm.name], arm) for arm in design.arms}
    prompts_data = read(layout.prompts)
    same_file(layout.prompts, design.prompts_sha256, sha256(prompts_data))
    sampling = next(iter(locks.values())).plan.sampling
    prompts = parse_prompts(prompts_data, layout.path(layout.prompts), sampling, chat=True)
    basis = Basis(
        trust=trust,
        arms={arm.name: arm for arm in design.arms},
        locks=locks,
        prompts={prompt.id: prompt for prompt in prompts},
        certificates=_certificates(design, layout, read, trust),
    )
    _check_complete(journal, [prompt.id for prompt in prompts])
    _check_preflights(journal, [locked.plan for locked in locks.values()])
    watch = Watch(natural=design.natural, timed=design.kind == "speed")
    measured = []
    for line in journal.samples:
        sample = measure(line, read(line.receipt), basis, journal.rendered)
        watch.see(sample)
        measured.append(sample)
    return Sources(
        design=design,
        plans={name: locked.plan for name, locked in locks.items()},
        locks={
            name: FileRef(file=files[name], sha256=sha256(locked.data))
            for name, locked in locks.items()
        },
        prompts_file=FileRef(file=layout.prompts, sha256=sha256(prompts_data)),
        journal_file=FileRef(file=layout.journal, sha256=sha256(journal_data)),
        prompts=[prompt.id for prompt in prompts],
        preflights=journal.preflights,
        measured=measured,
    )


def measure(
    line: SampleLine, receipt: bytes, basis: Basis, rendered: Mapping[str, str]
) -> Measured:
    """The sample of a journal's line, its receipt verified and held against the plan and prompt.

    Raises PowerError P851 where the line says something else than the receipt, P857 where
    its certificate is not there, P634 and P635 where that is another one, and as
    `verify_receipt`.
    """
    arm, prompt = basis.arms.get(line.arm), basis.prompts.get(line.prompt)
    if arm is None or prompt is None:
        _refuse(line, "names an arm or a prompt that this bench does not have", None, None)
    locked = basis.locks[line.arm]
    verified = verify_receipt(
        receipt, basis.trust, plan=locked.data, output=line.output, name=line.receipt
    )
    if verified.receipt_id != line.receipt_id:
        _refuse(line, "has another receipt", line.receipt_id, verified.receipt_id)
    statement = verified.statement
    asked = statement.predicate.request
    for what, expected, found in _asked(prompt, locked.plan, arm, rendered, asked):
        if expected != found:
            _refuse(line, f"ran with another {what}", expected, found)
    if not fits(line, statement):
        _refuse(line, "holds tokens or a text that were not signed", None, None)
    _check_certificate(line, statement, arm, basis)
    return Measured(sample_of(line, statement), statement, tuple(line.ids), line.output)


def _asked(
    prompt: Prompt, plan: Plan, arm: ArmLine, rendered: Mapping[str, str], asked: RequestPart
) -> Sequence[tuple[str, object, object]]:
    text = prompt.text if prompt.messages is None else rendered.get(prompt.id)
    sampling = plan.sampling
    return (
        ("prompt", None if text is None else sha256(text.encode()), asked.prompt_sha256),
        ("reading of special tokens", prompt.messages is not None, asked.special_tokens),
        ("`control`", arm.control, asked.control),
        ("limit of tokens", prompt.max_tokens or sampling.max_tokens, asked.max_tokens),
        ("stop sequences", stop_sha256(prompt.stop), asked.stop_sha256),
        ("seed", sampling.seed if prompt.seed is None else prompt.seed, asked.seed),
    )


def _refuse(line: SampleLine, why: str, expected: object, found: object) -> NoReturn:
    fail(
        "P851",
        f"the sample of prompt `{line.prompt}` {why}",
        place=f"{line.receipt}: arm `{line.arm}`, round {line.round}",
        expected=expected,
        found=found,
        hint=_BROKEN,
    )


def _certificates(
    design: DesignLine, layout: Layout, read: Read, trust: Trust
) -> dict[str, Certified]:
    """The certificates beside the plans of the arms, each verified by itself."""
    found = {}
    for arm in design.arms:
        name = layout.certificate(design.owner(arm))
        try:
            data = read(name)
        except PowerError:  # whether one is needed, the receipts say
            continue
        found[arm.name] = verify_certificate(data, trust, name=name)
    return found


def _check_certificate(line: SampleLine, statement: Statement, arm: ArmLine, basis: Basis) -> None:
    """The certificate that the receipt names is there, and shows what its plan claims here."""
    named = statement.predicate.exactness.certificate_sha256
    plan, certified = basis.locks[arm.name].plan, basis.certificates.get(arm.name)
    if named is None and not needs_certificate(plan, control=arm.control):
        return
    if named is None or certified is None:
        fail(
            "P857",
            "the receipt names no certificate, and its plan claims a level that needs one"
            if named is None
            else "the certificate that the receipt rests on is not there",
            place=f"{line.receipt}: predicate.exactness",
            expected=named or f"a certificate of level `{plan.exactness.level}`",
            hint=_BROKEN,
        )
    found = against_certificate(statement, certified)
    if found:
        raise PowerError(tuple(replace(d, place=f"{line.receipt}: {d.place}") for d in found))


def _locked(read: Read, name: str, arm: ArmLine) -> Locked:
    data = read(name)
    same_file(name, arm.lock_sha256, sha256(data))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        fail("P430", "the plan is not UTF-8 text", place=name, hint=_BROKEN)
    plan = lock.loads(text, name)
    same_file(name, arm.plan_sha256, plan.lock.plan_sha256)
    return Locked(plan, data)


def same_file(name: str, expected: str, found: str) -> None:
    """Refuse (P850) the file `name`, whose SHA-256 is not the `expected` one."""
    if expected != found:
        fail(
            "P850",
            f"`{name}` is not the file that the bench ran with",
            place=name,
            expected=expected,
            found=found,
            hint=_BROKEN,
        )


def _check_complete(journal: Journal, prompts: Sequence[str]) -> None:
    """Every sample of the design is there, once."""
    design = journal.design
    if design is None or len(prompts) != design.prompts:
        fail(
            "P852",
            "the prompts are not as many as were planned",
            place=str(journal.path),
            expected=None if design is None else design.prompts,
            found=len(prompts),
            hint=_BROKEN,
        )
    arms = [arm.name for arm in design.arms]
    planned = Design(len(arms), len(prompts), design.rounds)
    wanted = {(cell.round, arms[cell.arm], prompts[cell.prompt]) for cell in planned.cells()}
    found = [(line.round, line.arm, line.prompt) for line in journal.samples]
    if len(found) != len(set(found)) or set(found) != wanted:
        fail(
            "P852",
            "the samples are not those that were planned",
            place=str(journal.path),
            expected=f"{planned.size} samples, each once",
            found=f"{len(set(found) & wanted)} of them in {len(found)} lines",
            hint="run the same `power bench` again: it goes on where it ended",
        )
    order = [cell_of(line, arms, prompts) for line in journal.samples]
    if design.kind == "speed" and not planned.allows(order):
        fail(
            "P852",
            "the samples were not taken in the order of the design",
            place=str(journal.path),
            expected="arms rotated by round",
            hint=_BROKEN,
        )


def _check_preflights(journal: Journal, plans: Sequence[Plan]) -> None:
    """Each record is what its reading gives under the plans' limits."""
    limits = limits_of(plans)
    for number, record in enumerate(journal.preflights):
        again = judge(record.reading, limits, overridden=record.overridden)
        if again != record:
            missed = [gate.name for gate in again.missed]
            fail(
                "P854",
                "a preflight is judged otherwise than its reading says",
                place=f"preflight[{number}].gates",
                expected=f"{len(again.gates)} gates, missed: {', '.join(missed) or 'none'}",
                found=f"{len(record.gates)} gates, passed: {record.passed}",
                hint=_BROKEN,
            )


def cell_of(line: SampleLine, arms: Sequence[str], prompts: Sequence[str]) -> Cell:
    """Where a journal's line stands in the design."""
    return Cell(line.round, arms.index(line.arm), prompts.index(line.prompt))


def reader(folder: Path) -> Read:
    """Reads the files of a report from `folder`; raises PowerError P805."""

    def read(name: str) -> bytes:
        path = folder / name
        try:
            return read_regular(path, FILE_LIMIT)
        except UnreadableError as error:
            fail(
                "P805",
                f"a file of the report cannot be read: {error}",
                place=str(path),
                hint="keep the files that `power bench` wrote together",
            )

    return read
