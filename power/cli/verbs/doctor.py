"""`power doctor`: the engine, its devices, what it can execute, and the host."""

from __future__ import annotations

import click

from power.cli.console import Verb
from power.cli.options import format_option
from power.diagnostics import ExitCode, PowerError, escape


@click.command("doctor")
@format_option("human", "json")
def command(fmt: str) -> None:
    """Show the engine, its devices, what it can execute, and the host. Exit 1: no engine."""
    with Verb("doctor", fmt) as verb:
        from power.backends.registry import backend
        from power.runner.probe import probe, read_host

        host = read_host()
        verb.data["host"] = host
        verb.out("\n".join(f"{name:<16}{escape(str(value))}" for name, value in host.items()))
        try:
            facts = backend().describe()
            found = probe()
        except PowerError as error:
            verb.note(error.diagnostics)
            verb.answer(ExitCode.NO)
            return
        verb.data["engine"] = found
        verb.data["strategies"] = {s: reason or "yes" for s, reason in facts.capabilities.items()}
        lines = [
            f"{'engine':<16}{found['package']} {found['version']} (llama.cpp {found['llama_cpp']})",
            *(f"{'device':<16}{escape(device)}" for device in found["devices"]),
            *(f"{'library':<16}{name} {sha}" for name, sha in sorted(found["libraries"].items())),
            *(
                f"{'strategy':<16}{name:<14} {'yes' if reason is None else 'no: ' + reason}"
                for name, reason in facts.capabilities.items()
            ),
        ]
        verb.out("\n".join(lines))
