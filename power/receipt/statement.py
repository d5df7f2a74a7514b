"""From a finished run to the in-toto statement that is signed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from power.diagnostics import PowerError, fail
from power.plan.model import Plan
from power.receipt import claim, digests
from power.receipt.consistency import acceptance_met, contradictions
from power.receipt.planned import Planned, planned
from power.receipt.predicate import (
    IDS_SUBJECT,
    PLAN_SUBJECT,
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    TEXT_SUBJECT,
    AcceptanceBound,
    BoundsPart,
    Digest,
    EnginePart,
    ExactnessPart,
    Execution,
    HostPart,
    Library,
    Predicate,
    RequestPart,
    Statement,
    Subject,
    Timing,
    WidthRun,
)
from power.receipt.shape import refusal
from power.runner.types import EngineRecord, HostRecord, Request, RunRecord

_UNFINISHED = ("cancelled", "failed")


def build_statement(
    plan: Plan,
    plan_bytes: bytes,
    request: Request,
    record: RunRecord,
    *,
    certificate: bytes | None = None,
) -> dict[str, Any]:
    """The statement of one finished run, as JSON values without a float.

    `plan_bytes` is the plan file as it was read and verified; `certificate` the
    exactness certificate that shows the plan's level, when there is one.

    Raises P650 for a run that was cancelled or failed, ran another strategy than
    the plan's or has a malformed record, P626 when its counters contradict each
    other: such a run is not signed.
    """
    _check_signable(plan, request, record)
    try:
        derived = planned(plan, plan_bytes, control=record.control)
        statement = _statement(derived, request, record, certificate)
    except ValidationError as error:
        what, hint = (
            "the record of the run is malformed",
            "this is a fault of the runner; report it",
        )
        raise refusal(error, "P650", what, "", hint) from error
    found = contradictions(statement)
    if found:
        raise PowerError(found)
    return statement.document()


def _statement(
    derived: Planned, request: Request, record: RunRecord, certificate: bytes | None
) -> Statement:
    ids = digests.token_ids_sha256(record.ids)
    text = digests.sha256(record.text)
    asked = _request(request, record, derived)
    return Statement(
        type_=STATEMENT_TYPE,
        subject=[
            Subject(name=PLAN_SUBJECT, digest=derived.plan.digest),
            Subject(name=IDS_SUBJECT, digest=Digest(sha256=ids)),
            Subject(name=TEXT_SUBJECT, digest=Digest(sha256=text)),
        ],
        predicateType=PREDICATE_TYPE,
        predicate=Predicate(
            plan=derived.plan,
            request=asked,
            artifacts=derived.artifacts,
            engine=engine_part(record.engine),
            host=host_part(record.host, record.engine),
            execution=_execution(record, derived),
            exactness=ExactnessPart(
                level=derived.level,
                certificate_sha256=None if certificate is None else digests.sha256(certificate),
            ),
            bounds=_bounds(record, derived),
            timing=_timing(record),
            claim_sha256=claim.claim_sha256(
                target=claim.target_digests(derived.artifacts),
                prompt_token_ids_sha256=asked.prompt_token_ids_sha256,
                sampling_sha256=asked.sampling_sha256,
                output_token_ids_sha256=ids,
                output_text_sha256=text,
            ),
        ),
    )


def _check_signable(plan: Plan, request: Request, record: RunRecord) -> None:
    if record.finish in _UNFINISHED:
        fail(
            "P650",
            f"the run ended as `{record.finish}`, and a run that did not finish is not signed",
            hint="run the plan again",
        )
    strategy = "off" if request.control else plan.speculation.strategy
    if record.control != request.control or record.strategy != strategy:
        fail(
            "P650",
            "what ran is not what the plan and the request say",
            place="execution.strategy",
            expected=f"`{strategy}`" + (" as a control run" if request.control else ""),
            found=f"`{record.strategy}`" + (" as a control run" if record.control else ""),
            hint="this is a fault of the runner; please report it",
        )


def _request(request: Request, record: RunRecord, derived: Planned) -> RequestPart:
    stop = digests.stop_sha256(request.stop)
    return RequestPart(
        prompt_sha256=digests.sha256(request.text.encode("utf-8")),
        prompt_token_ids_sha256=digests.token_ids_sha256(record.prompt_ids),
        prompt_tokens=len(record.prompt_ids),
        special_tokens=request.special,
        max_tokens=record.max_tokens,
        seed=record.seed,
        stop_sha256=stop,
        control=record.control,
        sampling=derived.sampling,
        sampling_sha256=claim.sampling_sha256(
            derived.sampling,
            seed=record.seed,
            max_tokens=record.max_tokens,
            stop_sha256=stop,
        ),
    )


def engine_part(engine: EngineRecord) -> EnginePart:
    """The engine that the worker loaded."""
    return EnginePart(
        package=engine.package,
        version=engine.version,
        llama_cpp=engine.llama_cpp,
        libraries=[
            Library(name=name, digest=Digest(sha256=value))
            for name, value in sorted(engine.libraries.items())
        ],
    )


def host_part(host: HostRecord, engine: EngineRecord) -> HostPart:
    """The host, with the devices that the engine found."""
    return HostPart(
        os=host.os,
        machine=host.machine,
        cpu=host.cpu,
        physical_cores=host.physical_cores,
        threads=host.threads,
        memory_bytes=host.memory_bytes,
        devices=list(engine.devices),
    )


def _execution(record: RunRecord, derived: Planned) -> Execution:
    counters: Mapping[str, Any] = record.counters
    finish: Any = str(record.finish)  # a Finish; the model judges it
    return Execution(
        strategy="off" if record.control else derived.plan.strategy,
        graph=derived.graph,
        widths=derived.widths,
        finish=finish,
        output_tokens=len(record.ids),
        fr_covered_tokens=record.fr_covered,
        rounds=counters["rounds"],
        target_only_rounds=counters["target_only_rounds"],
        drafted=counters["drafted"],
        accepted=counters["accepted"],
        drafted_by_position=list(counters["drafted_by_position"]),
        accepted_by_position=list(counters["accepted_by_position"]),
        replays=counters["replays"],
        guard_round=counters.get("guard_round"),
        clamped_width=counters.get("clamped_width"),
        widened_round=counters.get("widened_round"),
        circuit_round=counters.get("circuit_round"),
        width_by_round=[WidthRun(width=w, rounds=n) for w, n in counters["widths"]],
        peak_rss_bytes=record.peak_rss_bytes,
        notes=list(record.notes),
    )


def _bounds(record: RunRecord, derived: Planned) -> BoundsPart | None:
    required = derived.required_acceptance
    if required is None:
        return None
    met = acceptance_met(required, record.counters["accepted"], record.counters["drafted"])
    return BoundsPart(min_acceptance=AcceptanceBound(required=required, met=met))


def _timing(record: RunRecord) -> Timing:
    return Timing(
        started=record.started,
        finished=record.finished,
        wall_us=record.wall_us,
        first_token_us=record.first_token_us,
        first_tokens=record.first_tokens or None,
        phases_us=dict(record.phases_us),
    )
