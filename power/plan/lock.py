"""The lock file: a plan as TOML, byte for byte the same wherever it is made.

Writing is canonical: fixed key order, one fact a line, one shard a line, no
times, no paths of a machine. Reading is strict: a file that Power would not have
written in exactly these bytes is refused, so a plan has one digest and one form.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import rfc8785
import tomli_w
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from power.diagnostics import Diagnostic, PowerError, Span, escape, fail
from power.manifest.files import UnreadableError, nearby, read_regular
from power.manifest.problems import real_keys
from power.manifest.syntax import deep_key, find_excess
from power.plan import rules
from power.plan.coherence import incoherent
from power.plan.model import PLAN_REVISION, PLAN_VERSION, Lock, Plan
from power.plan.places import first_line_difference, key_span, line_span

SIZE_LIMIT = 2 << 20  # a manifest and a profile have at most 1 MiB each
_MADE_BY = "# Made by `power compile`"
_HEADER = re.compile(re.escape(_MADE_BY) + r" from manifest ([^,:]*)")
_CONFLICT_MARKS = ("<<<<<<< ", "||||||| ", ">>>>>>> ")
_AGAIN = "run `power compile` again; a plan is not edited by hand"
_NAME_A_LOCK = "name the lock file that `power compile` wrote"
_MOST_PROBLEMS = 20


def plan_sha256(body: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the RFC 8785 form of a plan's body (`Plan.body()`)."""
    return hashlib.sha256(rfc8785.dumps(dict(body))).hexdigest()


def seal(body: Mapping[str, Any]) -> Plan:
    """The plan with this body and its digest."""
    unsealed = Plan.model_validate({**body, "lock": {"plan_sha256": "0" * 64}})
    digest = Lock(plan_sha256=plan_sha256(unsealed.body()))
    return unsealed.model_copy(update={"lock": digest})


def dumps(plan: Plan) -> str:
    """The lock file's text."""
    document = {**plan.body(), "lock": plan.lock.model_dump()}
    return _header(plan) + "\n" + _table((), document)


def made_from(text: str) -> str | None:
    """The name of the manifest that `power compile` made this file from, whatever it is now.

    None for a file that it did not write. The first line says so; of a conflict,
    the first line of the first side does.
    """
    first, _, rest = text.partition("\n")
    line = rest.partition("\n")[0] if first.startswith(_CONFLICT_MARKS) else first
    found = _HEADER.match(line)
    return None if found is None else found[1]


def _header(plan: Plan) -> str:
    name = escape(plan.manifest.name)
    profile = "" if plan.profile is None else f", profile {escape(plan.profile.name)}"
    return (
        f"{_MADE_BY} from manifest {name}{profile}: do not edit.\n"
        "# To make it again: power compile MANIFEST. To check it: power compile MANIFEST --check.\n"
    )


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> str:
    """One TOML table: its facts first, then its sub-tables, each under its header."""
    facts = {k: v for k, v in table.items() if not _is_tables(v) and not isinstance(v, dict)}
    blocks = [tomli_w.dumps(facts)] if facts else []
    blocks += [_one_a_line(k, v) for k, v in table.items() if _is_tables(v)]
    text = "".join(blocks)
    if path and (text or not table):
        text = f"[{'.'.join(path)}]\n{text}"
    subtables = [_table((*path, k), v) for k, v in table.items() if isinstance(v, dict)]
    return "\n".join([text, *subtables] if text else subtables)


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _one_a_line(key: str, rows: list[dict[str, Any]]) -> str:
    """An array of inline tables with a line for each, so that a diff shows whole shards."""
    lines = [", ".join(tomli_w.dumps({k: v}).strip() for k, v in row.items()) for row in rows]
    return f"{key} = [\n" + "".join(f"    {{ {line} }},\n" for line in lines) + "]\n"


def load(path: Path) -> Plan:
    """Read and check the lock file at `path`.

    Raises PowerError: P430 it cannot be read; else as `loads`.
    """
    return loads(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of the lock file at `path`, unchecked.

    Raises PowerError P430: missing, not a regular file, too large, or not UTF-8.
    """
    try:
        data = read_regular(path, SIZE_LIMIT)
    except UnreadableError as error:
        hint = _NAME_A_LOCK
        if error.why == "absent":
            hint = nearby(path) or "make it with `power compile`"
        elif error.why == "refused":
            hint = "check the path and its permissions"
        fail("P430", f"the plan cannot be read: {error}", place=str(path), hint=hint)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        fail(
            "P430",
            "the plan is not UTF-8 text",
            place=f"{path}, byte {error.start}",
            hint=_NAME_A_LOCK,
        )


def loads(text: str, name: str) -> Plan:
    """The plan in `text`; `name` is the file's name in messages.

    Raises PowerError: P431 conflict markers, P432 not TOML, P433 another format
    version, P434 keys or values that no plan has, P435 the digest does not fit,
    P436 the digest fits but the bytes are not the ones Power writes, P410 to P422 and
    P424 a rule of plans is broken.
    """
    _refuse_conflict(text, name)
    raw = _parse(text, name)
    _refuse_other_version(raw, text, name)
    try:
        plan = Plan.model_validate(raw)
    except ValidationError as error:
        raise PowerError(_problems(error, raw, text, name)) from None
    _refuse_edits(plan, text, name)
    _refuse_unsound(plan, text, name)
    return plan


def _refuse_conflict(text: str, name: str) -> None:
    lines = text.split("\n")
    marked = [n for n, line in enumerate(lines) if line.startswith(_CONFLICT_MARKS)]
    if marked:
        fail(
            "P431",
            "the plan holds merge conflict markers",
            spans=(line_span(name, lines, marked[0]),),
            hint="merge the manifests, then run `power compile` again: a plan is not merged",
        )


def _parse(text: str, name: str) -> dict[str, Any]:
    if deep_key(text) is not None:
        _refuse_nesting(name)
    try:
        values = tomllib.loads(text)
    except RecursionError:
        _refuse_nesting(name)
    except ValueError as error:  # TOMLDecodeError, or an integer with too many digits
        hint = _AGAIN if made_from(text) is not None else _NAME_A_LOCK
        fail("P432", f"the plan is not valid TOML: {error}", place=name, hint=hint)
    excess = find_excess(values)
    if excess == "depth":
        _refuse_nesting(name)
    if excess == "number":
        fail("P432", "the plan holds too many values", place=name, hint=_AGAIN)
    return values


def _refuse_nesting(name: str) -> NoReturn:
    fail("P432", "the plan is nested too deeply", place=name, hint=_AGAIN)


def _refuse_other_version(raw: Mapping[str, Any], text: str, name: str) -> None:
    if not {"schema", "version", "lock"} & raw.keys():
        message = "this is no plan" if raw else "the plan is empty"
        fail("P434", message, place=name, hint=_NAME_A_LOCK)
    if "schema" in raw and "version" not in raw:
        fail(
            "P434",
            "this is a manifest or a profile, not a plan",
            place=name,
            hint="compile the manifest, and name the lock file that `power compile` wrote",
        )
    version = raw.get("version")
    if type(version) is not int or version == PLAN_VERSION:
        return  # a missing or mistyped version is reported with the other fields
    newer = version > PLAN_VERSION
    fail(
        "P433",
        "the plan was made by a newer Power" if newer else "the plan's version does not exist",
        spans=key_span(name, text, ("version",)),
        expected=f"version {PLAN_VERSION}",
        found=f"version {version}",
        hint="upgrade Power, or compile the manifest again" if newer else _AGAIN,
    )


def _problems(
    error: ValidationError, raw: Mapping[str, Any], text: str, name: str
) -> tuple[Diagnostic, ...]:
    revision = raw.get("revision")
    newer = type(revision) is int and revision > PLAN_REVISION
    out = []
    found: dict[tuple[str, ...], ErrorDetails] = {}
    for item in error.errors(include_url=False, include_context=False):
        real = real_keys(item["loc"], raw, missing=item["type"] == "missing")
        found.setdefault(tuple(map(str, real)), item)  # the branches of a union count once
    for keys, item in list(found.items())[:_MOST_PROBLEMS]:
        path = ".".join(keys)
        missing, unknown = item["type"] == "missing", item["type"] == "extra_forbidden"
        message = f"`{path}` is " + (
            "missing from the plan"
            if missing
            else "not a key of a plan"
            if unknown
            else "not what a plan may hold there"
        )
        hint = "the plan has a newer revision: upgrade Power" if newer else _AGAIN
        spans: tuple[Span, ...] = () if missing else key_span(name, text, keys)
        out.append(
            Diagnostic(
                code="P434",
                message=message,
                spans=spans,
                place=None if spans else name,
                expected=None if missing or unknown else item["msg"],
                found=None if missing else escape(repr(item["input"]), 200),
                hint=hint,
            )
        )
    return tuple(out)


def _refuse_edits(plan: Plan, text: str, name: str) -> None:
    try:
        found = plan_sha256(plan.body())
    except rfc8785.CanonicalizationError as error:
        fail(
            "P434",
            f"the plan holds a value without a canonical form: {error}",
            place=name,
            hint=_AGAIN,
        )
    if found != plan.lock.plan_sha256:
        fail(
            "P435",
            "the plan was edited after it was compiled: its digest does not fit",
            spans=key_span(name, text, ("lock", "plan_sha256")),
            expected=plan.lock.plan_sha256,
            found=found,
            hint=_AGAIN,
        )
    canonical = dumps(plan)
    if text != canonical:
        crlf = text.replace("\r\n", "\n") == canonical
        fail(
            "P436",
            "the plan's facts fit its digest, but its bytes are not as Power writes them",
            spans=first_line_difference(name, text, canonical),
            hint="mark `*.lock` as `-text` in .gitattributes: line ends were converted"
            if crlf
            else _AGAIN,
        )


def _refuse_unsound(plan: Plan, text: str, name: str) -> None:
    """A digest can be made to fit; the rules hold all the same."""
    broken = rules.findings(plan) or incoherent(plan)
    if broken:
        raise PowerError(tuple(_placed(finding, text, name) for finding in broken))


def _placed(finding: rules.Finding, text: str, name: str) -> Diagnostic:
    """A finding at its lines of the plan, which is not where it is mended."""
    spans = tuple(span for key in finding.keys for span in key_span(name, text, key))
    return replace(
        finding.diagnostic,
        spans=spans,
        place=None if spans else name,
        hint="change it in the manifest, then run `power compile`",
    )
