"""What tuning writes: a profile with its evidence, and the report that the evidence names. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import tomli_w
from pydantic import Field

from power.diagnostics import Diagnostic, PowerError
from power.evidence.parts import Count, Decimal, Hex, Part, Text
from power.evidence.planner import Judged, Prediction
from power.evidence.preflight import Preflight
from power.evidence.simulate import LOOKUPS
from power.evidence.trace import Trace, TracedCosts
from power.manifest.formatted import formatted
from power.manifest.meaning import meaning
from power.manifest.merge import Effective
from power.manifest.model import SECTIONS
from power.plan.model import Cost

_OURS = {
    "speculation": (
        "spec_mode",
        "spec_draft_max",
        "spec_draft_min",
        "spec_draft_p_min",
        "spec_mtp_recurrent_snapshots",
        "spec_mtp_fr_vocab_size",
        "spec_mtp_adaptive",
        "controller",
        "cost",
    ),
    "graph": ("rows", "batch"),
}
"""Settings that the tuned profile decides. What the manifest itself writes wins over a profile."""


class Compared(Part):
    """One prompt: speed-ups over target-only. equal: the ids of both arms."""

    prompt: Text
    predicted: Decimal
    measured: Decimal
    equal: bool


class TunedEngine(Part):
    """The engine that was measured. libraries: SHA-256 by file name."""

    package: Text
    version: Text
    llama_cpp: Text
    libraries: dict[str, Hex]
    devices: list[str]


class TunedHost(Part):
    """The host that was measured."""

    os: Text
    machine: Text
    cpu: Text
    physical_cores: Count
    threads: Count
    memory_bytes: Count


class TimedPart(Part):
    """How long one thing took behind `cells` tokens, in nanoseconds by repeat.

    size: rows of a pass, or the longest length of a proposal. drafted: tokens that were
    proposed; 0 for a pass. ns: of a pass, right behind one of its own size; first_ns: of a
    pass, behind one of another size; back_ns: of a pass of one row, right behind this one.
    plain_ns: just before each, of a pass of one row; absent from older reports.
    """

    cells: Count
    size: Count
    drafted: Count
    ns: list[Count]
    plain_ns: list[Count] | None = None
    first_ns: list[Count] | None = None
    back_ns: list[Count] | None = None


class TuneReport(Part):
    """What a tuning measured and chose. settings: the best predictions, the best first.

    intakes: proposals that had `size` tokens to take in first, where a draft model does that.

    predicted, measured: geometric means over `by_prompt`; chosen is absent for `off`.
    """

    schema_: Literal["power.tune-report.v1"] = Field("power.tune-report.v1", alias="schema")
    recorded_plan_sha256: Hex
    tuned_plan_sha256: Hex
    prompts_sha256: Hex
    trace_sha256: Hex
    engine: TunedEngine
    host: TunedHost
    quiet: Preflight
    passes: list[TimedPart]
    drafts: list[TimedPart]
    intakes: list[TimedPart] | None = None
    cost: TracedCosts
    lookups: list[Text]
    settings: list[Prediction]
    chosen: Prediction | None = None
    predicted: Decimal
    measured: Decimal
    by_prompt: list[Compared]


def check_open(effective: Effective) -> None:
    """Raise PowerError P808 for what the manifest writes itself and tuning would decide.

    Also for a claim of `shape` where the manifest does not fix the shape: tuning then
    chooses among natural ones, of which that cannot be claimed.
    """
    problems = [
        Diagnostic(
            "P808",
            f"the manifest itself sets `{section}.{key}`, which wins over any profile",
            spans=effective.spans((section, key, "")),
            hint="move it into a profile, and let tuning decide",
        )
        for section, keys in _OURS.items()
        for key in keys
        if effective.origin(section, key) == "manifest"
    ]
    if effective.settings.exactness.level == "shape" and not fixes_shape(effective):
        problems.append(
            Diagnostic(
                "P808",
                "`shape` is claimed, and tuning chooses a natural shape, of which it cannot be",
                spans=effective.spans(("exactness", "level", "")),
                hint='set `graph.shape = "fixed"` in the manifest, or leave the claim out',
            )
        )
    if problems:
        raise PowerError(tuple(problems))


def fixes_shape(effective: Effective) -> bool:
    """Whether the manifest itself asks for the fixed shape, which tuning then keeps."""
    return effective.settings.graph.shape == "fixed" and (
        effective.origin("graph", "shape") == "manifest"
    )


def chosen_settings(chosen: Judged | None, cost: Cost) -> dict[str, Any]:
    """The tuned `[speculation]`."""
    if chosen is None:
        return {"spec_mode": "off"}
    setting = chosen.candidate.setting
    found: dict[str, Any] = {"spec_mode": setting.strategy, "spec_draft_max": setting.draft_max}
    found["spec_mtp_recurrent_snapshots"] = setting.snapshots or setting.draft_max
    if setting.controller != "fixed":
        found["controller"] = setting.controller
    if setting.controller == "cost":
        lookup = setting.strategy in LOOKUPS
        prefill = None if lookup else cost.draft_prefill
        natural = chosen.candidate.rows is None
        most = max(setting.draft_max + 1, chosen.candidate.rows or 0)
        found["cost"] = {
            "draft_call": "0" if lookup else cost.draft_call,
            "draft_step": "0" if lookup else cost.draft_step,
            **({} if prefill is None else {"draft_prefill": prefill}),
            **(cost.model_dump(include={"rebuild", "refill"}) if natural else {}),
            "rows": {rows: spent for rows, spent in cost.rows.items() if int(rows) <= most},
        }
    return found


def profile_text(  # noqa: PLR0913 - the parts of a profile
    effective: Effective,
    *,
    name: str,
    summary: str,
    speculation: Mapping[str, Any],
    rows: int | None,
    evidence: Mapping[str, Any],
) -> str:
    """The profile in canonical form; what the manifest's own profile says besides is kept."""
    kept = {} if effective.profile is None else meaning(effective.profile.profile)
    document: dict[str, Any] = {"schema": 1, "name": name, "summary": summary}
    document["speculation"] = speculation
    graph = {k: v for k, v in kept.get("graph", {}).items() if k not in {"rows", "batch", "shape"}}
    graph["shape"] = "natural" if rows is None else "fixed"
    if rows is not None:
        graph["rows"] = rows
    document["graph"] = graph
    decided = {"speculation", "graph"}
    document |= {name: kept[name] for name in SECTIONS if name not in decided and kept.get(name)}
    document["evidence"] = [dict(evidence)]
    head = "# Made by `power tune`: the setting that its report predicts and measures.\n\n"
    text = head + tomli_w.dumps(document)
    return formatted(text.encode(), f"{name}.toml").text


def traced_costs(trace: Trace, cost: Cost) -> Trace:
    """`trace` with the costs that go with it."""
    return trace.model_copy(update={"costs": costs_part(cost)})


def costs_part(cost: Cost) -> TracedCosts:
    """Costs as a trace and a report hold them."""
    return TracedCosts(**cost.model_dump())


def report_bytes(report: TuneReport) -> bytes:
    """A report as its file holds it."""
    return (json.dumps(report.document(), indent=1) + "\n").encode("ascii")
