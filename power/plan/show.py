"""A plan for a person: what runs, on what, in which shape, and what it claims.

Also the textconv of git, so the text is a function of the plan alone, one fact
or a few that belong together a line.
"""

from __future__ import annotations

from collections.abc import Iterator

from power.diagnostics import escape
from power.plan.model import Draft, Header, Plan, Target

_MARGIN = 13


def show_text(plan: Plan) -> str:
    """The plan in about thirty lines, ending with a line feed."""
    lines = [f"plan {escape(plan.name)}  (format {plan.version}.{plan.revision})"]
    for section in (_sources, _artifacts, _speculation, _graph, _host, _sampling, _claims):
        lines.append("")
        lines += [f"  {name:<{_MARGIN}} {text}" for name, text in section(plan)]
    return "\n".join(lines) + "\n"


Line = tuple[str, str]


def _sources(plan: Plan) -> Iterator[Line]:
    yield "plan sha256", plan.lock.plan_sha256
    yield "manifest", f"{escape(plan.manifest.name)}  {_short(plan.manifest.sha256)}"
    if plan.profile is not None:
        yield "profile", f"{escape(plan.profile.name)}  {_short(plan.profile.sha256)}"
    engine = plan.engine
    yield (
        "engine",
        escape(f"{engine.package} {engine.version} with llama.cpp {engine.llama_cpp}"),
    )


def _artifacts(plan: Plan) -> Iterator[Line]:
    yield from _artifact("target", plan.target)
    yield from _model(plan.target.header)
    yield from _origin(plan.target)
    if plan.draft is None:
        yield "draft", "none"
        return
    yield from _artifact("draft", plan.draft)
    if plan.draft.header is not None:
        yield from _model(plan.draft.header)
    yield from _origin(plan.draft)
    contract = plan.draft.contract
    whose = "own" if plan.draft.header is not None else "the target's"
    limits = [
        f"kind {plan.draft.kind}",
        "no width limit of its own"
        if contract.max_width is None
        else f"at most {contract.max_width} tokens a proposal",
    ]
    if contract.fr_vocabulary is not None:
        limits.append(f"{whose} head of {contract.fr_vocabulary} rows")
    yield "", "; ".join(limits)
    for note in contract.notes:
        yield "", f"note: {escape(note)}"


def _artifact(name: str, artifact: Target | Draft) -> Iterator[Line]:
    shards = "" if artifact.shards is None else f"  in {len(artifact.shards)} shards"
    yield name, escape(artifact.path) + shards
    yield "", f"{artifact.bytes:,} bytes  sha256 {artifact.sha256}"


def _model(header: Header) -> Iterator[Line]:
    yield (
        "",
        escape(f"{header.architecture} {header.file_type}")
        + f"  {header.layers} layers x {header.width}, context {header.context:,}",
    )
    tokenizer = " ".join(t for t in (header.tokenizer_model, header.pre_tokenizer) if t)
    digest = _short(header.vocabulary_sha256)
    yield "", f"{header.vocabulary:,} tokens ({escape(tokenizer)})  vocabulary {digest}"


def _origin(artifact: Target | Draft) -> Iterator[Line]:
    origin = [text for text in (artifact.source, artifact.revision) if text is not None]
    words = [f"from {escape(', '.join(origin))}"] if origin else []
    if artifact.license is not None:
        words.append(f"license {escape(artifact.license)}")
    if words:
        yield "", "; ".join(words)


def _speculation(plan: Plan) -> Iterator[Line]:
    spec = plan.speculation
    asked = "" if spec.requested == spec.strategy else f"  (asked for: {escape(spec.requested)})"
    yield "strategy", f"{spec.strategy}{asked}"
    yield "", f"because {escape(spec.reason)}"
    if spec.spec_draft_max is None:
        return
    snapshots = f"S {spec.spec_mtp_recurrent_snapshots} (effective {spec.effective_snapshots})"
    yield "widths", f"K {spec.spec_draft_max}  {snapshots}  B {plan.graph.batch}"
    yield (
        "rollback",
        f"trim: the KV cache drops any suffix, window {spec.spec_draft_max}"
        if spec.rollback == "trim"
        else f"snapshots: window {spec.effective_snapshots}, more is replayed",
    )
    yield "drafting", ", ".join(_drafting(plan))
    if spec.cost is not None:
        passes = ", ".join(f"{cost} for {rows}" for rows, cost in spec.cost.rows.items())
        yield "costs", f"draft {spec.cost.draft_call} and {spec.cost.draft_step} a token"
        if spec.cost.draft_prefill is not None:
            yield "", f"a token that the draft takes in: {spec.cost.draft_prefill}"
        turns = f"{spec.cost.rebuild}, and {spec.cost.refill} for each row less"
        yield "", f"another row count than before: {turns}"
        yield "", f"passes, by rows: {passes}"


def _drafting(plan: Plan) -> Iterator[str]:
    spec = plan.speculation
    yield f"least {spec.spec_draft_min}"
    if spec.spec_draft_p_min:
        yield f"stop below p {spec.spec_draft_p_min:g}"
    if spec.controller is not None:
        yield "the width that pays"
    else:
        yield "adaptive width" if spec.spec_mtp_adaptive else "fixed width"
    if spec.fr_rule == "full":
        yield "full draft vocabulary"
    elif spec.fr_rule is not None:
        yield f"draft vocabulary of {spec.spec_mtp_fr_vocab_size} rows ({spec.fr_rule})"


def _graph(plan: Plan) -> Iterator[Line]:
    graph = plan.graph
    shape = "natural" if graph.rows is None else f"fixed, {graph.rows} rows a pass"
    yield "shape", shape
    yield "context", f"{graph.context:,} tokens, prefill {graph.prefill_batch} a pass"
    yield "device", f"gpu layers {graph.gpu_layers} on gpu {graph.main_gpu}"
    if graph.micro_batch is not None or graph.repack is not None:
        cut = "whole passes" if graph.micro_batch is None else f"{graph.micro_batch} rows"
        yield "kernels", f"see {cut} at once, repacked weights {graph.repack or 'where safe'}"
    yield "", f"flash attention {graph.flash_attention}, CUDA graphs {_on(graph.cuda_graphs)}"
    yield "", f"backend sampling {_on(graph.backend_sampling)}"


def _host(plan: Plan) -> Iterator[Line]:
    host = plan.host
    threads = "physical cores" if host.threads is None else str(host.threads)
    pinned = "" if host.cpu_affinity is None else f" on CPUs {host.cpu_affinity}"
    priority = f"{host.process_priority} priority"
    cuda = ", high-priority CUDA streams" if host.cuda_high_priority else ""
    yield "threads", f"{threads}{pinned}, {priority}{cuda}"
    yield "requires", ", ".join(map(escape, host.require)) or "nothing"


def _sampling(plan: Plan) -> Iterator[Line]:
    chosen = plan.sampling.model_dump(exclude_none=True, exclude={"grammar", "seed", "max_tokens"})
    head = "greedy" if plan.sampling.temperature == 0 else "sampled"
    filters = ", ".join(f"{name} {value:g}" for name, value in chosen.items())
    grammar = "" if plan.sampling.grammar is None else ", within a grammar"
    yield "sampling", f"{head}: {filters}, seed {plan.sampling.seed}{grammar}"
    yield "output", f"at most {plan.sampling.max_tokens} tokens"


def _claims(plan: Plan) -> Iterator[Line]:
    yield "exactness", plan.exactness.level
    if plan.bounds is not None and plan.bounds.min_acceptance is not None:
        yield "bounds", f"acceptance >= {plan.bounds.min_acceptance:g}"
    if plan.preflight is not None:
        limits = plan.preflight.model_dump(exclude_none=True)
        yield "preflight", ", ".join(f"{name} {value}" for name, value in limits.items())


def _short(digest: str) -> str:
    return digest[:16]


def _on(flag: bool) -> str:  # noqa: FBT001 - it is the value shown
    return "on" if flag else "off"
