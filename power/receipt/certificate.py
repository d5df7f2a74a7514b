"""The predicate `urn:power:exactness-certificate:v1` as types, and what it shows.

docs/predicates/exactness-certificate-v1.md is its page, in field order. A field
that is None is left out of the statement; there are no floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from power.diagnostics import Diagnostic
from power.receipt.consistency import Finding, as_diagnostics, parse_time
from power.receipt.predicate import (
    PLAN_SUBJECT,
    Artifact,
    Count,
    Decimal,
    EnginePart,
    GraphPart,
    Hex,
    HostPart,
    Level,
    Part,
    PlanPart,
    Round,
    Subject,
    Time,
    Widths,
)

CERTIFICATE_TYPE: Final = "urn:power:exactness-certificate:v1"
PROPOSERS: Final = ("own", "oracle", "anti-oracle", "wrong-at", "random", "empty")
"""Who proposes in whole runs; `own` is the plan's, and missing where that is off."""

Proposer = Literal["own", "oracle", "anti-oracle", "wrong-at", "random", "empty"]
Classes = list[Annotated[list[Round], Field(min_length=1)]]


class ClassesAt(Part):
    """Row counts with equal bits in passes that begin behind `cells` tokens."""

    cells: Round
    classes: Classes


class Padding(Part):
    """Passes of the fixed row count: `real` rows of text, the others this token."""

    real: Round
    token: Count
    equal: bool


class RowsPart(Part):
    """Logits of `span` positions behind every number of cells, in passes of every row count.

    classes: row counts whose rows had equal bits at every position behind every
    number of cells. digest: over all digests of rows, in order.
    """

    token_ids_sha256: Hex
    span: Round
    counts: list[Round] = Field(min_length=1)
    classes: Classes
    by_cells: list[ClassesAt] = Field(min_length=1)
    padding: list[Padding]
    digest: Hex


class ArmPart(Part):
    """Whole runs under one proposer, against the control run of the same prompt.

    replayed: requests that evaluated a rejected suffix again, and how many of them
    were equal.
    """

    proposer: Proposer
    runs: Round
    equal: Count
    drafted: Count
    accepted: Count
    replayed: Count
    replayed_equal: Count


class Fork(Part):
    """Where a run left its reference. prompt counts from 1, token from 0.

    margin: between the two highest logits of the reference there; absent where one
    of the two runs had ended.
    """

    proposer: Proposer | Literal["none"]
    prompt: Round
    token: Count
    margin: Decimal | None = None


class RunsPart(Part):
    """Whole requests: what was asked, and what came of it. tokens: of the control runs."""

    prompts: Round
    prompts_sha256: Hex
    max_tokens: Round
    tokens: Count
    arms: list[ArmPart]
    forks: list[Fork]


class SerialPart(Part):
    """Control runs at the plan's shape against plain one-row decoding."""

    runs: Round
    equal: Count
    forks: list[Fork]


class CertificatePredicate(Part):
    """What was measured with one plan, on one host and engine build."""

    plan: PlanPart
    artifacts: list[Artifact] = Field(min_length=1)
    graph: GraphPart
    widths: Widths | None = None
    engine: EnginePart
    host: HostPart
    demanded: Literal["shape", "serial"]
    level: Level
    rows: RowsPart
    runs: RunsPart
    serial: SerialPart | None = None
    not_covered: list[str]
    started: Time
    finished: Time


class Certificate(Part):
    """in-toto Statement v1 about one plan file."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: list[Subject] = Field(min_length=1, max_length=1)
    predicateType: Literal["urn:power:exactness-certificate:v1"]  # noqa: N815 - in-toto's name
    predicate: CertificatePredicate

    def document(self) -> dict[str, Any]:
        """The statement as JSON values, absent fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def common_classes(classes: Sequence[Classes]) -> Classes:
    """Row counts that are in one class wherever it was looked, in ascending order."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for count in sorted(chain.from_iterable(classes[0])):
        places = tuple(
            next(i for i, counts in enumerate(found) if count in counts) for found in classes
        )
        groups.setdefault(places, []).append(count)
    return list(groups.values())


def shown_level(
    graph: GraphPart, rows: RowsPart, runs: RunsPart, serial: SerialPart | None
) -> Level:
    """The strongest level that these measurements show.

    `shape`: at a fixed shape neither padding nor any proposer made a difference.
    `serial`: besides, every row count that a pass may have is in one class with
    a single row, and every run was that of one-row decoding. At a natural shape the
    control run is one-row decoding, and no `shape` lies between.
    """
    alike = all(arm.equal == arm.runs for arm in runs.arms)
    if not alike or not all(padding.equal for padding in rows.padding):
        return "rule"
    if graph.rows is None or graph.rows == 1:
        return "serial" if len(rows.classes) == 1 else "rule"
    one_class = any({1, graph.rows} <= set(counts) for counts in rows.classes)
    whole = serial is not None and serial.equal == serial.runs
    return "serial" if one_class and whole else "shape"


def contradictions(certificate: Certificate) -> tuple[Diagnostic, ...]:
    """Every contradiction of a certificate with itself, one P626 each."""
    rules: tuple[Callable[[Certificate], Iterator[Finding]], ...] = (
        _subject,
        _classes,
        _arms,
        _serial,
        _level,
        _times,
    )
    return as_diagnostics((found for rule in rules for found in rule(certificate)), "certificate")


def _subject(certificate: Certificate) -> Iterator[Finding]:
    subject, plan = certificate.subject[0], certificate.predicate.plan
    found = (subject.name, subject.digest.sha256)
    if found != (PLAN_SUBJECT, plan.digest.sha256):
        expected = (PLAN_SUBJECT, plan.digest.sha256)
        yield "subject[0]", "the plan is not the subject", expected, found


def _classes(certificate: Certificate) -> Iterator[Finding]:
    rows = certificate.predicate.rows
    where = "predicate.rows."
    if sorted(set(rows.counts)) != rows.counts:
        yield where + "counts", "row counts are not in order", "ascending", rows.counts
    lists = [("classes", rows.classes)]
    lists += [(f"by_cells[{i}].classes", at.classes) for i, at in enumerate(rows.by_cells)]
    for name, classes in lists:
        if sorted(chain.from_iterable(classes)) != rows.counts:
            yield where + name, "not each row count is in one class", rows.counts, classes
            return
    expected = common_classes([at.classes for at in rows.by_cells])
    if rows.classes != expected:
        yield where + "classes", "not the classes of every context together", expected, rows.classes
    needed = _needed_counts(certificate)
    if not needed <= set(rows.counts):
        found = sorted(set(rows.counts))
        yield where + "counts", "a row count of the plan's passes is missing", needed, found


def _needed_counts(certificate: Certificate) -> set[int]:
    """The row counts that passes of the plan may have, and a single row."""
    graph, widths = certificate.predicate.graph, certificate.predicate.widths
    if graph.rows is not None:
        return {1, graph.rows}
    most = (widths.draft_max if widths is not None else 0) or 0
    return set(range(1, most + 2))


def _arms(certificate: Certificate) -> Iterator[Finding]:
    predicate = certificate.predicate
    runs, where = predicate.runs, "predicate.runs."
    speculates = predicate.plan.strategy != "off"
    names = [arm.proposer for arm in runs.arms]
    expected = list(PROPOSERS) if speculates else []
    if names != expected:
        yield where + "arms", "not every proposer was run", expected, names
    for i, arm in enumerate(runs.arms):
        place = f"{where}arms[{i}]"
        forks = sum(fork.proposer == arm.proposer for fork in runs.forks)
        if arm.runs != runs.prompts:
            yield place, "not every prompt was run", runs.prompts, arm.runs
        if arm.equal + forks != arm.runs:
            yield place, "not every run is equal or forks", arm.runs - arm.equal, forks
        if arm.accepted > arm.drafted:
            yield place, "more accepted than drafted", f"<= {arm.drafted}", arm.accepted
        others = arm.runs - arm.replayed, arm.equal - arm.replayed_equal  # runs, equal
        if arm.replayed_equal > arm.replayed or not 0 <= others[1] <= others[0]:
            yield place, "replayed runs are counted wrongly", arm.replayed, arm.replayed_equal
    yield from _places(runs.forks, runs, where + "forks")
    if any(fork.proposer not in names for fork in runs.forks):
        yield where + "forks", "a fork of a proposer that was not run", names, runs.forks


def _serial(certificate: Certificate) -> Iterator[Finding]:
    serial, runs = certificate.predicate.serial, certificate.predicate.runs
    where = "predicate.serial"
    rows = certificate.predicate.graph.rows
    if serial is None:
        return
    if rows is None or rows == 1:
        yield where, "passes have one row without a proposal", "absent", "present"
    if serial.runs != runs.prompts or serial.equal + len(serial.forks) != serial.runs:
        yield where, "not every prompt is equal or forks", runs.prompts, serial.runs
    if any(fork.proposer != "none" for fork in serial.forks):
        yield where + ".forks", "a proposer in a run without one", "none", serial.forks
    yield from _places(serial.forks, runs, where + ".forks")


def _places(forks: list[Fork], runs: RunsPart, where: str) -> Iterator[Finding]:
    seen = {(fork.proposer, fork.prompt) for fork in forks}
    if len(seen) != len(forks):
        yield where, "a run forks twice", len(seen), len(forks)
    for i, fork in enumerate(forks):
        if fork.prompt > runs.prompts or fork.token >= runs.max_tokens:
            limits = f"prompt <= {runs.prompts}, token < {runs.max_tokens}"
            yield f"{where}[{i}]", "a fork outside of every run", limits, fork.token


def _level(certificate: Certificate) -> Iterator[Finding]:
    predicate = certificate.predicate
    expected = shown_level(predicate.graph, predicate.rows, predicate.runs, predicate.serial)
    if predicate.level != expected:
        yield "predicate.level", "not what the measurements show", expected, predicate.level


def _times(certificate: Certificate) -> Iterator[Finding]:
    predicate = certificate.predicate
    try:
        started, finished = parse_time(predicate.started), parse_time(predicate.finished)
    except ValueError:
        found = f"{predicate.started}, {predicate.finished}"
        yield "predicate.started", "there is no such time", "RFC 3339 in UTC", found
        return
    if finished < started:
        yield "predicate.finished", "before the start", predicate.started, predicate.finished
