"""What tuning writes: a profile with its evidence, and the report that the evidence names. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tomli_w

from power.diagnostics import Diagnostic, PowerError
from power.evidence.planner import Judged
from power.evidence.simulate import LOOKUPS
from power.evidence.trace import Trace, TracedCosts
from power.manifest.formatted import formatted
from power.manifest.meaning import meaning
from power.manifest.merge import Effective
from power.plan.model import Cost

_OURS = {
    "speculation": (
        "spec_mode",
        "spec_draft_max",
        "spec_draft_min",
        "spec_mtp_recurrent_snapshots",
        "spec_mtp_adaptive",
        "controller",
        "cost",
    ),
    "graph": ("rows", "batch"),
}
"""Settings that the tuned profile decides. What the manifest itself writes wins over a profile."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One prompt, predicted and measured: speed-ups over target-only, as decimals."""

    prompt: str
    predicted: str
    measured: str
    equal: bool  # the ids of both arms

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def check_open(effective: Effective) -> None:
    """Raise PowerError P808 for what the manifest writes itself and tuning would decide."""
    written = [
        (section, key)
        for section, keys in _OURS.items()
        for key in keys
        if effective.origin(section, key) == "manifest"
    ]
    if written:
        raise PowerError(
            tuple(
                Diagnostic(
                    "P808",
                    f"the manifest itself sets `{section}.{key}`, which wins over any profile",
                    spans=effective.spans((section, key, "")),
                    hint="move it into a profile, and let tuning decide",
                )
                for section, key in written
            )
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
        most = max(setting.draft_max + 1, chosen.candidate.rows or 0)
        found["cost"] = {
            "draft_call": "0" if lookup else cost.draft_call,
            "draft_step": "0" if lookup else cost.draft_step,
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
    for section in ("host", "sampling", "exactness", "bounds"):
        if kept.get(section):
            document[section] = kept[section]
    document["evidence"] = [dict(evidence)]
    head = "# Made by `power tune`: the setting that its report predicts and measures.\n\n"
    text = head + tomli_w.dumps(document)
    return formatted(text.encode(), f"{name}.toml").text


def traced_costs(trace: Trace, cost: Cost) -> Trace:
    """`trace` with the costs that go with it."""
    costs = TracedCosts(
        draft_call=cost.draft_call, draft_step=cost.draft_step, rows=dict(cost.rows)
    )
    return trace.model_copy(update={"costs": costs})


def report_bytes(report: Mapping[str, Any]) -> bytes:
    """A report as its file holds it."""
    return (json.dumps(report, indent=1, sort_keys=False) + "\n").encode("ascii")
