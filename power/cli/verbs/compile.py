"""`power compile`: manifest + profile + artifacts -> plan."""

from __future__ import annotations

from pathlib import Path

import click

from power.cli.console import Verb
from power.cli.options import (
    FILE,
    artifact_roots,
    artifacts_option,
    format_option,
    output_option,
)
from power.diagnostics import escape


@click.command("compile")
@click.argument("manifest", type=FILE)
@output_option(
    "LOCK",
    "Where the plan goes: by default `plan.lock` for `manifest.toml` and `NAME.lock` for "
    "`NAME.toml`, beside the manifest.",
)
@click.option("--profile", metavar="P", help="A shipped profile's name or a profile's path.")
@artifacts_option
@click.option(
    "--check", is_flag=True, help="Write nothing; compare with the plan that is there. Exit 1: no."
)
@format_option("human", "json", "github")
def command(
    manifest: Path,
    output: Path | None,
    profile: str | None,
    artifacts: tuple[Path, ...],
    check: bool,
    fmt: str,
) -> None:
    """Verify MANIFEST, its profile and its artifacts, and lock the plan."""
    with Verb("compile", fmt) as verb:
        from dataclasses import asdict

        from power.backends.registry import backend
        from power.plan.check import check_lock
        from power.plan.compile import compile_manifest, default_lock_path, write_lock

        lock = output or default_lock_path(manifest)
        with verb.progress("hashing") as progress:
            compiled = compile_manifest(
                manifest,
                profile=profile,
                roots=artifact_roots(artifacts),
                engine=backend().describe(),
                progress=progress,
            )
        plan = compiled.plan
        verb.note(compiled.warnings)
        verb.data |= {
            "lock": str(lock),
            "plan_sha256": plan.lock.plan_sha256,
            "name": plan.name,
            "requested": plan.speculation.requested,
            "strategy": plan.speculation.strategy,
            "reason": plan.speculation.reason,
            "memory_bytes": None if compiled.memory is None else asdict(compiled.memory),
        }
        strategy = f"{plan.speculation.strategy} ({escape(plan.speculation.reason)})"
        if check:
            check_lock(lock, compiled)
            verb.say(f"{escape(str(lock))} is current: {strategy}")
            return
        write_lock(lock, compiled)
        verb.say(f"wrote {escape(str(lock))}: {strategy}")
        verb.say(f"plan {plan.lock.plan_sha256}")
        if compiled.memory is not None:
            verb.say(f"memory {compiled.memory.text()}")
