"""`power doctor`: the engine, its devices, what it can execute, and the host."""

from __future__ import annotations

import platform
from typing import Any

import click

from power.cli.console import Verb
from power.cli.options import format_option
from power.diagnostics import ExitCode, PowerError, escape

# An environment in which the engine was not asked at all.
_NO_QUESTION = frozenset({"P516"})


@click.command("doctor")
@format_option("human", "json")
def command(fmt: str) -> None:
    """Show the engine, its devices, what it can execute, and the host. Exit 1: no engine."""
    with Verb("doctor", fmt) as verb:
        from dataclasses import asdict

        from power import __version__
        from power.backends.registry import backend
        from power.runner.host import host_record, usable_cores
        from power.runner.probe import probe

        host = asdict(host_record(usable_cores()))
        verb.data |= {"power": __version__, "python": platform.python_version(), "host": host}
        lines = [("power", __version__), ("python", platform.python_version()), *host.items()]
        verb.out(_table(lines))
        try:
            described = backend().describe().capabilities
            engine = probe()
        except PowerError as error:
            if any(found.code in _NO_QUESTION for found in error.diagnostics):
                raise
            verb.note(error.diagnostics)
            verb.answer(ExitCode.NO)
            return
        capabilities = {**described, **engine.lacks}  # what is loaded has the last word
        verb.data["engine"] = asdict(engine)
        verb.data["strategies"] = [
            {"strategy": name, "executes": reason is None} | ({"reason": reason} if reason else {})
            for name, reason in capabilities.items()
        ]
        verb.out(
            _table(
                [
                    ("engine", f"{engine.package} {engine.version}"),
                    ("llama.cpp", engine.llama_cpp),
                    ("cpu features", engine.system_info),
                    *(("device", device) for device in engine.devices),
                    *(("library", f"{name}  {sha}") for name, sha in engine.libraries.items()),
                    *(
                        ("strategy", f"{name:<14} {'yes' if reason is None else f'no: {reason}'}")
                        for name, reason in capabilities.items()
                    ),
                    *(
                        ("setting", f"{key}: no effect, {reason}")
                        for key, reason in engine.without_effect.items()
                    ),
                    *(("note", remark) for remark in engine.remarks),
                ]
            )
        )


def _table(rows: list[tuple[str, Any]]) -> str:
    return "\n".join(f"{name.replace('_', ' '):<16}{escape(str(value))}" for name, value in rows)
