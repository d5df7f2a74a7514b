"""Measuring what a plan's outputs depend on, on this host and with this engine build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from power.artifact.header import Header
from power.diagnostics import PowerError
from power.evidence import equality
from power.evidence.whole_runs import WholeRuns
from power.manifest.shipped import prompts_path
from power.plan.model import Plan
from power.receipt.certificate import (
    CERTIFICATE_TYPE,
    Certificate,
    CertificatePredicate,
    RowsPart,
    RunsPart,
    contradictions,
    shown_level,
)
from power.receipt.planned import planned
from power.receipt.predicate import PLAN_SUBJECT, STATEMENT_TYPE, Subject
from power.receipt.statement import engine_part, host_part
from power.runner.batch import rendered_line
from power.runner.chat import render_for_header
from power.runner.literal import Rendered
from power.runner.prompts import read_prompts
from power.runner.runner import Runner
from power.runner.types import Request

Demanded = Literal["shape", "serial"]
Progress = Callable[[int, int], None]


def demanded(plan: Plan, level: str | None) -> Demanded:
    """What a certificate has to show: what was asked for, else what the plan claims."""
    claimed = level or plan.exactness.level
    return "shape" if claimed == "shape" else "serial"


def requests(
    prompts: Path | None, plan: Plan, header: Header, *, first: int, max_tokens: int
) -> list[Request]:
    """The first prompts of a file (Power's own without one), cut to `max_tokens`.

    A model without a chat template gets the last message of each of Power's own prompts
    as plain text. Raises PowerError P570 and P573 as `read_prompts`, and P56x for a chat template.
    """
    path = prompts or prompts_path()
    most = min(max_tokens, plan.sampling.max_tokens)
    chats = plan.target.header.chats
    plain = prompts is None and not chats
    out = []
    for prompt in read_prompts(path, plan.sampling, chat=chats or plain)[:first]:
        if prompt.messages is not None and plain:
            request = prompt.request(Rendered(prompt.messages[-1]["content"]), control=False)
            request = replace(request, special=False)
        else:
            rendered = rendered_line(prompt, lambda said: render_for_header(header, said))
            request = prompt.request(rendered, control=False)
        out.append(replace(request, max_tokens=min(request.max_tokens or most, most)))
    return out


def certify(
    runner: Runner,
    plan_bytes: bytes,
    requests: Sequence[Request],
    demanded: Demanded,
    progress: Progress | None = None,
) -> Certificate:
    """Measure `runner`'s plan with `requests` (at least one) and say what was shown.

    demanded: `shape` leaves one-row decoding out. plan_bytes: the plan's file.
    Raises PowerError: P840 the context is too small, what `Runner` raises;
    KeyboardInterrupt when the runner was cancelled.
    """
    plan, started = runner.plan, _now()
    asked = equality.reading(plan)
    several = (plan.graph.rows or 1) > 1
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, runs.steps + 1)

    runs = WholeRuns(runner, requests, serial=several and demanded == "serial", step=step)
    runs.run()
    ids = equality.cycled(runs.texts, asked.tokens)
    found = runner.rows(ids, asked.cells, asked.span, asked.shapes)
    step()
    rows, whole, serial = (
        equality.judge(plan, asked, ids, found),
        runs.runs_part(),
        runs.serial_part(),
    )
    derived = planned(plan, plan_bytes, control=False)
    level = shown_level(derived.graph, rows, whole, serial)
    certificate = Certificate(
        type_=STATEMENT_TYPE,
        subject=[Subject(name=PLAN_SUBJECT, digest=derived.plan.digest)],
        predicateType=CERTIFICATE_TYPE,
        predicate=CertificatePredicate(
            plan=derived.plan,
            artifacts=derived.artifacts,
            graph=derived.graph,
            widths=derived.widths,
            engine=engine_part(runner.engine),
            host=host_part(runner.host, runner.engine),
            demanded=demanded,
            level=level,
            rows=rows,
            runs=whole,
            serial=serial,
            not_covered=list(_not_covered(plan, rows, whole, demanded)),
            started=started,
            finished=_now(),
        ),
    )
    problems = contradictions(certificate)
    if problems:
        raise PowerError(problems)
    return certificate


def _not_covered(plan: Plan, rows: RowsPart, runs: RunsPart, demanded: Demanded) -> Iterator[str]:
    """What a reader may not conclude from the measurements."""
    reach = rows.by_cells[-1].cells + rows.span
    if reach < plan.graph.context:
        yield f"rows behind {reach} tokens, of a context of {plan.graph.context}"
    yield f"other prompts than these {runs.prompts}, and texts beyond {runs.max_tokens} tokens"
    replayed = sum(arm.replayed for arm in runs.arms)
    if replayed:
        yield f"rows of passes that replay: {replayed} runs that did are counted apart"
    elif plan.speculation.rollback == "snapshots":
        yield "requests that replay: no run did"
    if plan.sampling.temperature > 0:
        yield "other seeds than those of the prompts"
    if demanded == "shape":
        yield "one-row decoding"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
