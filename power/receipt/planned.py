"""The parts of a predicate that a plan alone decides.

The signer writes them from the plan; a verifier who holds the plan derives them
again and compares. One function for both keeps the two from drifting apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from power.plan.model import Draft, Plan, Target
from power.receipt.digests import decimal, sha256
from power.receipt.predicate import (
    Annotations,
    Artifact,
    Digest,
    GraphPart,
    Level,
    PlanPart,
    Role,
    Sampling,
    Widths,
)


@dataclass(frozen=True, slots=True)
class Planned:
    """What the plan says of a run. `required_acceptance` is None without that bound."""

    plan: PlanPart
    sampling: Sampling
    artifacts: list[Artifact]
    graph: GraphPart
    widths: Widths | None
    level: Level
    required_acceptance: str | None


def planned(plan: Plan, plan_bytes: bytes, *, control: bool) -> Planned:
    """Derive it; a control run has the plan's shape and no widths."""
    strategy = plan.speculation.strategy
    bound = plan.bounds.min_acceptance if plan.bounds is not None and not control else None
    return Planned(
        plan=PlanPart(
            name=plan.name,
            digest=Digest(sha256=sha256(plan_bytes)),
            plan_sha256=plan.lock.plan_sha256,
            strategy=strategy,
        ),
        sampling=_sampling(plan),
        artifacts=_artifacts(plan),
        graph=GraphPart(shape=plan.graph.shape, batch=plan.graph.batch, rows=plan.graph.rows),
        widths=None if control or strategy == "off" else _widths(plan),
        level=plan.exactness.level,
        required_acceptance=_decimal(bound),
    )


def _sampling(plan: Plan) -> Sampling:
    asked = plan.sampling
    grammar = asked.grammar
    return Sampling(
        temperature=decimal(asked.temperature),
        top_k=asked.top_k,
        top_p=_decimal(asked.top_p),
        min_p=_decimal(asked.min_p),
        typical_p=_decimal(asked.typical_p),
        repeat_penalty=_decimal(asked.repeat_penalty),
        repeat_last_n=asked.repeat_last_n,
        grammar_sha256=None if grammar is None else sha256(grammar.encode("utf-8")),
    )


def _widths(plan: Plan) -> Widths:
    spec = plan.speculation
    return Widths(
        draft_max=spec.spec_draft_max,
        draft_min=spec.spec_draft_min,
        draft_p_min=_decimal(spec.spec_draft_p_min),
        snapshots=spec.spec_mtp_recurrent_snapshots,
        effective_snapshots=spec.effective_snapshots,
        rollback=spec.rollback,
        fr_vocab_size=spec.spec_mtp_fr_vocab_size,
        fr_rule=spec.fr_rule,
        fr_sha256=spec.fr_sha256,
        adaptive=spec.spec_mtp_adaptive,
    )


def _artifacts(plan: Plan) -> list[Artifact]:
    found = _files("target", plan.target)
    return found if plan.draft is None else found + _files("draft", plan.draft)


def _files(role: Role, part: Target | Draft) -> list[Artifact]:
    """One descriptor a file: a split GGUF has one for each shard."""
    shards = part.shards or []
    files = shards if any(shard.path == part.path for shard in shards) else [part, *shards]
    return [
        Artifact(
            name=file.path,
            uri=part.source,
            digest=Digest(sha256=file.sha256),
            annotations=Annotations(
                role=role,
                bytes=file.bytes,
                shard=number if shards else None,
                revision=part.revision,
            ),
        )
        for number, file in enumerate(files, start=1)
    ]


def _decimal(value: float | None) -> str | None:
    return None if value is None else decimal(value)
