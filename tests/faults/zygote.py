"""A process that has Power imported and forks a child for each command it is asked for.

`python -m tests.faults.zygote` reads one JSON list of commands a line, runs them all at
once, and answers with one JSON list. A command: `call` (`module:function`, by default
the command line), `arguments`, `folder`, and perhaps `fault` and `step`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import traceback
from importlib import import_module
from typing import IO, Any, NoReturn

from tests.faults.points import inject, inject_in_talk

WARM = (
    *("power.cli.app", "power.cli.verbs.compile", "power.cli.verbs.key", "power.cli.verbs.init"),
    *("power.cli.verbs.run", "power.cli.verbs.verify", "power.plan.compile", "power.plan.check"),
    *("power.backends.llamacpp", "power.cli.execution", "power.cli.signing", "power.plan.starter"),
    *("power.receipt.keys", "power.receipt.verify", "power.runner.batch", "tests.faults.deeds"),
)


def start(command: dict[str, Any]) -> tuple[int, IO[bytes], IO[bytes]]:
    """Fork a child that runs the command; its process id, stdout and stderr."""
    out, err = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115 - they outlive this
    child = os.fork()
    if child == 0:
        _become(command, out, err)
    return child, out, err


def _become(command: dict[str, Any], out: IO[bytes], err: IO[bytes]) -> NoReturn:
    os.chdir(command["folder"])
    for number, file in ((0, None), (1, out), (2, err)):
        source = os.open(os.devnull, os.O_RDONLY) if file is None else file.fileno()
        os.dup2(source, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    os.environ["POWER_KEY"] = os.path.join(command["folder"], "key.pem")  # noqa: PTH118
    sys.argv = ["power", *command["arguments"]]
    module, _, name = command.get("call", "power.cli.app:run").partition(":")
    call = getattr(import_module(module), name)
    code = 0
    if "message" in command:
        inject_in_talk(command["fault"], command["message"])
    else:
        inject(command.get("fault", "kill"), command.get("step", -1))
    try:
        call()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - what the interpreter would do
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    for module in WARM:
        import_module(module)
    _say("ready")
    for line in sys.stdin:
        running = [start(command) for command in json.loads(line)]
        ends = []
        for child, out, err in running:
            _, status = os.waitpid(child, 0)
            out.seek(0)
            err.seek(0)
            ends.append(
                {
                    "pid": child,
                    "code": os.waitstatus_to_exitcode(status),
                    "stdout": out.read().decode("utf-8", "replace"),
                    "stderr": err.read().decode("utf-8", "replace"),
                }
            )
        _say(json.dumps(ends))


if __name__ == "__main__":
    main()
