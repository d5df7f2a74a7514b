"""What the engine says of itself once its library is mapped, asked in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from power.backends.interface import EngineIdentity
from power.diagnostics import Diagnostic, PowerError, as_json, escape, fail
from power.runner.crash import explain_end
from power.runner.limits import call_limit
from power.runner.spawn import child_environment, python_module

_COMMAND = python_module("power.runner.probe")


def probe(name: str = "llamacpp", command: Sequence[str] = _COMMAND) -> EngineIdentity:
    """The identity of the backend `name`, its native library loaded in a child process.

    Raises PowerError, exit 4: P503 when the child does not answer in time, P505,
    P517 and P518 when it ends or is killed without an answer.
    """
    limit = call_limit()
    try:
        child = subprocess.run(
            [*command, name],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=child_environment(),
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        fail(
            "P503",
            f"the engine's library did not load within {limit:g} s",
            hint="see whether the machine is busy, then try again",
        )
    if child.returncode != 0:
        raise PowerError((explain_end(child.returncode, "it loaded", child.stderr, None),))
    try:
        answer: dict[str, Any] = json.loads(child.stdout)
        if "refused" in answer:
            raise PowerError(tuple(Diagnostic(**found) for found in answer["refused"]))
        return EngineIdentity(**answer)
    except (ValueError, TypeError):
        fail(
            "P505",
            "the engine's library wrote to standard output, where its identity was to come",
            found=escape(child.stdout.decode("utf-8", "replace").strip(), 200),
            hint="build the engine without it, and try again",
        )


def main(arguments: Sequence[str]) -> None:
    """Write the identity of the backend `arguments[0]` to stdout, as JSON."""
    from power.backends.registry import backend  # noqa: PLC0415 - the child's business

    try:
        answer = asdict(backend(arguments[0]).identify())
    except PowerError as error:
        answer = {"refused": as_json(error.diagnostics)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
