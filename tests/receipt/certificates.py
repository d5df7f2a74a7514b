"""A certificate of the sample plan, with every optional field present."""

from typing import Any

from power.receipt.certificate import (
    CERTIFICATE_TYPE,
    PROPOSERS,
    ArmPart,
    Certificate,
    CertificatePredicate,
    ClassesAt,
    Fork,
    Padding,
    RowsPart,
    RunsPart,
    SerialPart,
    shown_level,
)
from power.receipt.planned import planned
from power.receipt.predicate import PLAN_SUBJECT, STATEMENT_TYPE, Subject
from power.receipt.statement import engine_part, host_part
from tests.receipt import samples
from tests.receipt.samples import digest

ROWS = RowsPart(
    token_ids_sha256=digest("tokens"),
    span=8,
    counts=[1, 2, 3, 4, 5],
    classes=[[1], [2, 3], [4, 5]],
    by_cells=[
        ClassesAt(cells=28, classes=[[1, 2, 3], [4, 5]]),
        ClassesAt(cells=252, classes=[[1], [2, 3], [4, 5]]),
    ],
    padding=[Padding(real=1, token=0, equal=True), Padding(real=4, token=9, equal=True)],
    digest=digest("rows"),
)
RUNS = RunsPart(
    prompts=3,
    prompts_sha256=digest("prompts"),
    max_tokens=32,
    tokens=90,
    arms=[
        ArmPart(
            proposer=proposer,
            runs=3,
            equal=2 if proposer == "random" else 3,
            drafted=40,
            accepted=20,
            replayed=2 if proposer == "random" else 0,
            replayed_equal=1 if proposer == "random" else 0,
        )
        for proposer in PROPOSERS
    ],
    forks=[Fork(proposer="random", prompt=2, token=7, margin="0.015625")],
)
SERIAL = SerialPart(
    runs=3, equal=2, forks=[Fork(proposer="none", prompt=3, token=31, margin="0.5")]
)


def certificate(
    rows: RowsPart = ROWS, runs: RunsPart = RUNS, serial: SerialPart | None = SERIAL
) -> Certificate:
    """A certificate of the sample plan (a fixed shape of 5 rows) with these measurements."""
    plan = samples.sample_plan()
    derived = planned(plan, samples.plan_bytes(plan), control=False)
    engine, host = samples.RECORD.engine, samples.RECORD.host
    return Certificate(
        type_=STATEMENT_TYPE,
        subject=[Subject(name=PLAN_SUBJECT, digest=derived.plan.digest)],
        predicateType=CERTIFICATE_TYPE,
        predicate=CertificatePredicate(
            plan=derived.plan,
            artifacts=derived.artifacts,
            graph=derived.graph,
            widths=derived.widths,
            engine=engine_part(engine),
            host=host_part(host, engine),
            demanded="serial",
            level=shown_level(derived.graph, rows, runs, serial),
            rows=rows,
            runs=runs,
            serial=serial,
            not_covered=["rows behind 260 tokens, of a context of 4096"],
            started="2026-08-23T10:11:12Z",
            finished="2026-08-23T10:31:17Z",
        ),
    )


def sample_certificate() -> dict[str, Any]:
    return certificate().document()


def equal_runs() -> RunsPart:
    """`RUNS` with no fork."""
    arms = [
        arm.model_copy(update={"equal": 3, "replayed_equal": arm.replayed}) for arm in RUNS.arms
    ]
    return RUNS.model_copy(update={"arms": arms, "forks": []})


def equal_serial() -> SerialPart:
    """`SERIAL` with no fork."""
    return SERIAL.model_copy(update={"equal": 3, "forks": []})


def one_class() -> RowsPart:
    """`ROWS` with equal bits everywhere."""
    whole = [[1, 2, 3, 4, 5]]
    at = [each.model_copy(update={"classes": whole}) for each in ROWS.by_cells]
    return ROWS.model_copy(update={"classes": whole, "by_cells": at})
