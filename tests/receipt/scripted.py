"""Plans and runners on the reference backend, whose model is a pure function of its prefix."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from power.backends.scripted import BACKEND
from power.plan.model import Plan
from power.runner.runner import Runner
from tests.receipt import samples


@dataclass(frozen=True)
class Opened:
    fd: int


@dataclass(frozen=True)
class Artifacts:
    target: tuple[Opened, ...]
    draft: tuple[Opened, ...]
    reduced_vocabulary: None = None


def scripted_plan(strategy: str, level: str = "rule", **sampling: Any) -> Plan:
    """A sound plan for the scripted engine, which reads no artifact."""
    body = samples.plan_body()
    target = {k: v for k, v in body["target"].items() if k in {"path", "bytes", "sha256", "header"}}
    model, off = strategy == "draft-model", strategy == "off"
    speculation: dict[str, Any] = {
        "requested": strategy,
        "strategy": strategy,
        "reason": "asked for",
    }
    speculation |= {"rollback": "trim"}
    if not off:
        speculation |= {"spec_draft_max": 4, "spec_draft_min": 0}
        speculation |= {"spec_mtp_recurrent_snapshots": 7, "effective_snapshots": 4}
    if model:
        speculation |= {"spec_draft_p_min": 0.0, "spec_mtp_adaptive": False, "fr_rule": "full"}
    identity = BACKEND.identify()
    engine = {name: getattr(identity, name) for name in ("package", "version", "llama_cpp")}
    graph = body["graph"] | {"batch": 6, "rows": 5, "context": 512, "prefill_batch": 64}
    draft = body["draft"] | {"kind": "draft-model", "contract": {"notes": []}}
    return samples.sample_plan(
        target=target,
        draft=draft if model else None,
        speculation=speculation,
        graph=graph,
        host=body["host"] | {"threads": 1},
        sampling={"temperature": 0.0, "seed": 3, "max_tokens": 48} | sampling,
        exactness={"level": level},
        bounds=None,
        engine=engine | {"capabilities": [] if off else [strategy]},
    )


@contextmanager
def open_runner(plan: Plan, **options: Any) -> Iterator[Runner]:
    """A worker with the reference backend; `options` are the backend's own."""
    fd = os.memfd_create("artifact")
    try:
        opened = (Opened(fd),)
        draft = opened if plan.draft is not None else ()
        artifacts = Artifacts(opened, draft)
        with Runner(plan, artifacts, backend="scripted", extra={"scripted": options}) as runner:
            yield runner
    finally:
        os.close(fd)
