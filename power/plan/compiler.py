"""From facts to a plan: a pure function, without files, clock or engine.

What the resolved strategy does not use is left out, so that two plans differ
only where two runs would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from power.artifact.facts import HeaderFacts, PairFacts
from power.diagnostics import Diagnostic, PowerError, Span
from power.manifest import defaults
from power.manifest.model import Artifact, Draft, Settings, Target
from power.plan import lock, rules
from power.plan.capabilities import TRAITS, EngineFacts, prefix_sha256
from power.plan.model import PLAN_REVISION, PLAN_VERSION, Plan, Source
from power.plan.negotiate import NO_NATIVE_BLOCK, Places, Resolution, negotiate

SpansOf = Callable[[str, str], tuple[Span, ...]]
"""(section, key) -> where a manifest or profile states it, empty for a default."""


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """The declared draft: what the manifest says and what its file says.

    header: None for a table (kind `mtp`), which is no model. d2t_sha256: SHA-256 of
        the raw `d2t` table, when the draft has one.
    """

    artifact: Draft
    header: HeaderFacts | None
    pair: PairFacts
    d2t_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that a plan is a function of.

    settings: the sections after merging the manifest over the profile over the
        defaults; a default that depends on other values may still be None.
    native_lacks: why the target's native MTP block, if it has one, does not fulfil
        its contract; None when it does.
    """

    name: str
    manifest: Source
    profile: Source | None
    settings: Settings
    target: Target
    target_header: HeaderFacts
    draft: DraftFacts | None
    engine: EngineFacts
    native_lacks: str | None = None


def _nowhere(_section: str, _key: str) -> tuple[Span, ...]:
    return ()


def resolve(
    settings: Settings,
    engine: EngineFacts,
    *,
    native_lacks: str | None,
    draft_kind: str | None,
    spans_of: SpansOf = _nowhere,
) -> Resolution:
    """The strategy for these settings. Raises PowerError P401 to P404 (`negotiate`)."""
    draft = () if draft_kind is None else spans_of("draft", "kind")
    return negotiate(
        settings.speculation.spec_mode,
        engine=engine,
        native_lacks=native_lacks,
        draft_kind=draft_kind,
        places=Places(spans_of("speculation", "spec_mode"), draft),
    )


def compile_plan(inputs: Inputs, spans_of: SpansOf = _nowhere) -> Plan:
    """The plan for `inputs`, or everything that stands against it.

    Raises PowerError: P401 to P404 the strategy cannot run, P410 to P422 widths,
    shapes or limits that do not go together, all of them at once.
    """
    kind = None if inputs.draft is None else inputs.draft.artifact.kind
    resolution = resolve(
        inputs.settings,
        inputs.engine,
        native_lacks=inputs.native_lacks if inputs.target_header.nextn_layers else NO_NATIVE_BLOCK,
        draft_kind=kind,
        spans_of=spans_of,
    )
    plan = lock.seal(_body(inputs, resolution))
    broken = rules.findings(plan)
    if broken:
        raise PowerError(tuple(_placed(finding, spans_of) for finding in broken))
    return plan


def _placed(finding: rules.Finding, spans_of: SpansOf) -> Diagnostic:
    labelled = len(finding.keys) > 1
    spans = tuple(
        replace(span, label=key[1] if labelled else "")
        for key in finding.keys
        for span in spans_of(*key)
    )
    found = finding.diagnostic.found
    if not spans and not labelled and found is not None and spans_of is not _nowhere:
        found = f"{found} (default)"
    return replace(finding.diagnostic, spans=spans, found=found)


def _body(inputs: Inputs, resolution: Resolution) -> dict[str, Any]:
    settings = inputs.settings
    kind = None if inputs.draft is None else inputs.draft.artifact.kind
    # A run without a proposer loads no draft, so its plan does not hold one.
    draft = inputs.draft if resolution.strategy == kind else None
    graph = _graph(settings, resolution)
    body = {
        "version": PLAN_VERSION,
        "revision": PLAN_REVISION,
        "name": inputs.name,
        "manifest": inputs.manifest.model_dump(),
        "profile": None if inputs.profile is None else inputs.profile.model_dump(),
        "target": _artifact(inputs.target) | {"header": _header(inputs.target_header)},
        "draft": None if draft is None else _draft(draft),
        "speculation": _speculation(inputs, resolution, draft),
        "graph": graph,
        "host": settings.host.model_dump(mode="json"),
        "sampling": _sampling(settings),
        "exactness": settings.exactness.model_dump(),
        "bounds": settings.bounds.model_dump(exclude_none=True) or None,
        "preflight": settings.preflight.model_dump(exclude_none=True) or None,
        "engine": {
            "package": inputs.engine.package,
            "version": inputs.engine.version,
            "llama_cpp": inputs.engine.llama_cpp,
            "capabilities": [] if resolution.strategy == "off" else [resolution.strategy],
        },
    }
    return _without_none(body)


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }


def _artifact(artifact: Artifact) -> dict[str, Any]:
    shards = artifact.shards
    return {
        "path": artifact.path,
        "bytes": artifact.bytes,
        "sha256": artifact.sha256,
        "source": artifact.source,
        "revision": artifact.revision,
        "license": artifact.license,
        "shards": None if shards is None else [shard.model_dump() for shard in shards],
    }


def _draft(draft: DraftFacts) -> dict[str, Any]:
    contract = {
        "max_width": draft.pair.max_width,
        "fr_vocabulary": draft.pair.fr_vocabulary,
        "notes": list(draft.pair.notes),
    }
    return {
        "kind": draft.artifact.kind,
        "target_sha256": draft.artifact.target_sha256,
        **_artifact(draft.artifact),
        "header": None if draft.header is None else _header(draft.header),
        "contract": contract,
    }


def _header(facts: HeaderFacts) -> dict[str, Any]:
    return {
        "architecture": facts.architecture,
        "file_type": facts.file_type,
        "layers": facts.layers,
        "width": facts.width,
        "vocabulary": facts.vocabulary,
        "context": facts.context,
        "tokenizer_model": facts.tokenizer_model,
        "pre_tokenizer": facts.pre_tokenizer,
        "vocabulary_sha256": facts.vocabulary_sha256,
        "chat_template_sha256": facts.chat_template_sha256,
    }


def _speculation(
    inputs: Inputs, resolution: Resolution, draft: DraftFacts | None
) -> dict[str, Any]:
    asked, traits = inputs.settings.speculation, TRAITS[resolution.strategy]
    out: dict[str, Any] = {
        "requested": resolution.requested,
        "strategy": resolution.strategy,
        "reason": resolution.reason,
    }
    # A fixed shape pads, and padding is dropped by the same rule as a rejection.
    padded = inputs.settings.graph.shape == "fixed"
    rollback = "snapshots" if inputs.target_header.recurrent else "trim"
    if resolution.strategy == "off":
        return out | ({"rollback": rollback} if padded else {})
    k, s = asked.spec_draft_max, asked.spec_mtp_recurrent_snapshots
    out |= {
        "spec_draft_max": k,
        "spec_draft_min": asked.spec_draft_min,
        "spec_mtp_recurrent_snapshots": s,
        "effective_snapshots": min(s, k),
        "rollback": rollback,
    }
    if traits.model:
        out["spec_draft_p_min"] = asked.spec_draft_p_min
    return out | _controller(inputs.settings, resolution) | _reduced_head(inputs, resolution, draft)


def _controller(settings: Settings, resolution: Resolution) -> dict[str, Any]:
    """Who sets the width: a lookup says nothing where it is fixed."""
    asked, graph = settings.speculation, settings.graph
    kind = asked.width_controller
    if kind != "cost":
        said = TRAITS[resolution.strategy].model or kind == "adaptive"
        return {"spec_mtp_adaptive": kind == "adaptive"} if said else {}
    if asked.cost is None:
        return {"controller": kind}  # for the rules to refuse
    most = asked.spec_draft_max + 1
    used = {graph.rows or most} if graph.shape == "fixed" else set(range(1, most + 1))
    rows = {count: cost for count, cost in asked.cost.rows.items() if int(count) in used}
    cost = asked.cost.model_dump() | {"rows": rows}
    if graph.shape == "fixed":
        cost["rebuild"] = cost["refill"] = "0"  # every pass has the shape of the one before
    if resolution.strategy != "draft-model":
        cost["draft_prefill"] = None  # no other one takes text in of its own accord
    return {"controller": kind, "cost": cost}


def _reduced_head(
    inputs: Inputs, resolution: Resolution, draft: DraftFacts | None
) -> dict[str, Any]:
    """FR: what the draft head projects. What was asked in vain stays, for the rules to refuse."""
    asked, traits = inputs.settings.speculation.spec_mtp_fr_vocab_size, TRAITS[resolution.strategy]
    own = draft.pair.fr_vocabulary if draft is not None and traits.reducible else None
    projected = inputs.target_header if draft is None else draft.header
    whole = (projected or inputs.target_header).vocabulary
    rule: Literal["full", "prefix", "d2t"] = "full"
    digest: str | None = None
    if draft is not None and own is not None:
        rule, asked, digest = "d2t", asked or own, draft.d2t_sha256
    elif traits.reducible and asked == whole:
        asked = None  # every row: the full head by another name
    elif traits.reducible and asked is not None:
        rule, digest = "prefix", prefix_sha256(asked)
    return {
        "spec_mtp_fr_vocab_size": asked,
        "fr_rule": rule if traits.model else None,
        "fr_sha256": digest,
    }


def _graph(settings: Settings, resolution: Resolution) -> dict[str, Any]:
    graph, speculates = settings.graph, resolution.strategy != "off"
    several = speculates or graph.shape == "fixed"
    return {
        "batch": defaults.batch(settings, speculates=speculates) if several else None,
        "shape": graph.shape,
        "rows": defaults.rows(settings, speculates=speculates),
        "context": graph.context,
        "prefill_batch": defaults.prefill_batch(graph),
        "micro_batch": graph.micro_batch,
        "flash_attention": graph.flash_attention,
        "repack": None if graph.repack == "auto" else graph.repack,
        "cuda_graphs": graph.cuda_graphs,
        "backend_sampling": graph.backend_sampling,
        "gpu_layers": graph.gpu_layers,
        "main_gpu": graph.main_gpu,
    }


def _sampling(settings: Settings) -> dict[str, Any]:
    return settings.sampling.model_dump() | {"max_tokens": defaults.max_tokens(settings)}
