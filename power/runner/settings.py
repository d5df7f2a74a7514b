"""From a plan to what the engine and the scheduler are told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from power.backends.interface import EngineConfig, EngineIdentity, SamplingConfig
from power.manifest.model import Graph, Host
from power.plan.model import Cost, Plan
from power.runner.host import niceness
from power.runner.messages import Load
from power.speculation.outcome import NEVER, ControllerKind, Costs, Settings


def engine_config(
    plan: Plan,
    target: tuple[int, ...],
    draft: tuple[int, ...],
    threads: int,
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> EngineConfig:
    """The engine's settings; `target` and `draft` are open file descriptors, one a shard."""
    spec, graph = plan.speculation, plan.graph
    return EngineConfig(
        target=target,
        draft=draft,
        strategy=spec.strategy,
        draft_max=spec.spec_draft_max or 0,
        draft_p_min=spec.spec_draft_p_min or 0.0,
        snapshots=spec.effective_snapshots or 0,
        fr_vocab_size=spec.spec_mtp_fr_vocab_size,
        fr_rule=spec.fr_rule or "full",
        context=graph.context,
        batch=graph.batch or 1,
        rows=graph.rows,
        prefill_batch=graph.prefill_batch,
        micro_batch=graph.micro_batch,
        flash_attention=graph.flash_attention == "on",
        repack=None if graph.repack is None else graph.repack == "on",
        cuda_graphs=graph.cuda_graphs,
        backend_sampling=graph.backend_sampling,
        gpu_layers=graph.gpu_layers,
        main_gpu=graph.main_gpu,
        threads=threads,
        cuda_high_priority=plan.host.cuda_high_priority,
        extra=extra,
    )


def load_command(  # noqa: PLR0913 - the parts of one frame
    plan: Plan,
    *,
    backend: str,
    target: tuple[int, ...],
    draft: tuple[int, ...],
    threads: int,
    extra: Mapping[str, Any],
    beat_s: float,
) -> Load:
    """All that a worker is told of `plan` before it loads the engine."""
    affinity = plan.host.cpu_affinity
    return Load(
        backend=backend,
        engine=engine_config(plan, target, draft, threads, extra),
        settings=scheduler_settings(plan),
        affinity=None if affinity is None else tuple(affinity),
        nice=niceness(plan.host.process_priority),
        require=tuple(plan.host.require),
        beat_s=beat_s,
    )


def scheduler_settings(plan: Plan) -> Settings:
    """The scheduler's settings. A pure KV cache trims any suffix: its window is K."""
    spec = plan.speculation
    width = spec.spec_draft_max or 0
    snapshots = width if spec.effective_snapshots is None else spec.effective_snapshots
    return Settings(
        draft_max=width,
        draft_min=spec.spec_draft_min or 0,
        window=snapshots if spec.rollback == "snapshots" else width,
        snapshots=snapshots,
        context=plan.graph.context,
        controller=_controller(plan),
        costs=None if spec.cost is None else costs_of(spec.cost, width, plan.graph.rows),
    )


def _controller(plan: Plan) -> ControllerKind:
    spec = plan.speculation
    return spec.controller or ("adaptive" if spec.spec_mtp_adaptive else "fixed")


def costs_of(cost: Cost, width: int, fixed: int | None) -> Costs:
    """By proposed tokens, from 0 to K = `width`: the same for all at a shape of `fixed` rows."""
    rows = (str(fixed or tokens + 1) for tokens in range(width + 1))
    return Costs(
        rows=tuple(_millionths(cost.rows[n]) if n in cost.rows else NEVER for n in rows),
        call=_millionths(cost.draft_call),
        step=_millionths(cost.draft_step),
        prefill=_millionths(cost.draft_prefill or "0"),
        rebuild=_millionths(cost.rebuild) if fixed is None else 0,
        refill=_millionths(cost.refill) if fixed is None else 0,
    )


def _millionths(decimal: str) -> int:
    return int(Decimal(decimal) * 1_000_000)


def sampling_config(plan: Plan, seed: int) -> SamplingConfig:
    """The plan's sampler with this request's seed."""
    sampling = plan.sampling
    return SamplingConfig(
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        typical_p=sampling.typical_p,
        repeat_penalty=sampling.repeat_penalty,
        repeat_last_n=sampling.repeat_last_n,
        grammar=sampling.grammar,
        seed=seed,
    )


def ineffective(plan: Plan, identity: EngineIdentity) -> tuple[str, ...]:
    """What the plan asks of the engine in vain, a remark for each reason.

    A setting that is off, or at its default, asks for nothing.
    """
    why_not = dict(identity.without_effect)
    if not sampling_config(plan, plan.sampling.seed).greedy:
        why_not["graph.backend_sampling"] = "the plan's sampling is not greedy"
    reasons: dict[str, list[str]] = {}
    for section, asked, manifest in (("graph", plan.graph, Graph), ("host", plan.host, Host)):
        for name, setting in manifest.model_fields.items():
            why, value = why_not.get(f"{section}.{name}"), getattr(asked, name)
            if why is not None and value and value != setting.default:
                reasons.setdefault(why, []).append(f"`{section}.{name}`")
    return tuple(f"{', '.join(keys)}: no effect, {why}" for why, keys in reasons.items())
