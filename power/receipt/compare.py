"""A statement held against the plan, the output and the artifacts that a verifier has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from power.artifact.hashing import Progress, hash_files
from power.artifact.opened import open_file
from power.diagnostics import Diagnostic, PowerError
from power.plan import lock
from power.plan.model import Plan
from power.receipt.digests import sha256
from power.receipt.planned import planned
from power.receipt.predicate import PLAN_SUBJECT, TEXT_SUBJECT, Statement


def against_plan(statement: Statement, data: bytes, name: str = "plan") -> list[Diagnostic]:
    """Differences between a statement and the plan file `data`.

    Another file than the signed one is one P630. The signed file must also be a
    plan (P4xx from its reader) that says what the statement says of it (P633).
    """
    found = sha256(data)
    signed = statement.digest(PLAN_SUBJECT)
    if found != signed:
        return [
            Diagnostic(
                code="P630",
                message="this is not the plan that the receipt is about",
                place=name,
                expected=signed,
                found=found,
                hint="give the `plan.lock` of that run, byte for byte",
            )
        ]
    try:
        plan = lock.loads(data.decode("utf-8"), name)
    except UnicodeDecodeError:
        return [
            Diagnostic(
                code="P630",
                message="the signed plan is not a text",
                place=name,
                hint="do not rely on this receipt",
            )
        ]
    except PowerError as error:
        return list(error.diagnostics)
    return [
        Diagnostic(
            code="P633",
            message="the statement says something else than its plan",
            place=path,
            expected=str(expected),
            found=str(value),
            hint="the signer's facts are not those of the plan: do not rely on this receipt",
        )
        for path, expected, value in _differences(statement, plan, data)
    ]


def _differences(
    statement: Statement, plan: Plan, data: bytes
) -> Iterator[tuple[str, object, object]]:
    predicate = statement.predicate
    derived = planned(plan, data, control=predicate.request.control)
    bound = predicate.bounds.min_acceptance if predicate.bounds is not None else None
    expected = {
        "plan": derived.plan,
        "request": {"sampling": derived.sampling},
        "artifacts": derived.artifacts,
        "engine": {
            "package": plan.engine.package,
            "version": plan.engine.version,
            "llama_cpp": plan.engine.llama_cpp,
        },
        "execution": {"graph": derived.graph, "widths": derived.widths},
        "exactness": {"level": derived.level},
        "bounds": {"min_acceptance": {"required": derived.required_acceptance}},
    }
    found = {
        "plan": predicate.plan,
        "request": {"sampling": predicate.request.sampling},
        "artifacts": predicate.artifacts,
        "engine": {
            "package": predicate.engine.package,
            "version": predicate.engine.version,
            "llama_cpp": predicate.engine.llama_cpp,
        },
        "execution": {
            "graph": predicate.execution.graph,
            "widths": predicate.execution.widths,
        },
        "exactness": {"level": predicate.exactness.level},
        "bounds": {"min_acceptance": {"required": bound.required if bound else None}},
    }
    yield from _walk("predicate", _plain(expected), _plain(found))
    if predicate.request.max_tokens > plan.sampling.max_tokens:
        place = "predicate.request.max_tokens"
        yield place, f"at most {plan.sampling.max_tokens}", predicate.request.max_tokens


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _walk(path: str, expected: Any, found: Any) -> Iterator[tuple[str, object, object]]:
    """The leaves that differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected:
            yield from _walk(f"{path}.{key}", expected[key], found.get(key))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (left, right) in enumerate(zip(expected, found, strict=True)):
            yield from _walk(f"{path}[{index}]", left, right)
    elif expected != found:
        yield path, _shown(expected), _shown(found)


def _shown(value: object) -> object:
    if isinstance(value, list):
        return f"{len(value)} entries"
    return "absent" if value is None else value


def against_output(statement: Statement, data: bytes) -> list[Diagnostic]:
    """P631 when `data` is not the output text, byte for byte."""
    signed, found = statement.digest(TEXT_SUBJECT), sha256(data)
    if found == signed:
        return []
    return [
        Diagnostic(
            code="P631",
            message="this is not the output that the receipt is about",
            place="output",
            expected=signed,
            found=found,
            hint="give the text exactly as it was written, without a line end added",
        )
    ]


def against_artifacts(
    statement: Statement, roots: Sequence[Path], progress: Progress | None = None
) -> list[Diagnostic]:
    """P632 for each artifact whose file below `roots` has other bytes than the one that ran.

    Every file is looked up by its name in the statement, opened once and hashed.
    Raises P22x (not found, a path that leads out) and P230 (changed meanwhile).
    """
    artifacts = statement.predicate.artifacts
    with ExitStack() as stack:
        files = []
        for artifact in artifacts:
            file = open_file(artifact.name, roots)
            stack.callback(os.close, file.fd)
            files.append(file)
        digests = hash_files(files, progress)
    return [
        Diagnostic(
            code="P632",
            message=f"the artifact `{file.name}` is not the one that ran",
            place=str(file.path),
            expected=f"{artifact.annotations.bytes} bytes, {artifact.digest.sha256}",
            found=f"{file.size} bytes, {digest}",
            hint="fetch the artifact again from its source",
        )
        for artifact, file, digest in zip(artifacts, files, digests, strict=True)
        if (file.size, digest) != (artifact.annotations.bytes, artifact.digest.sha256)
    ]
