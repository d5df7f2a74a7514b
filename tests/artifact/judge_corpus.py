"""Inspect every corpus entry in a process of its own, under hard limits; print JSON lines.

Run as a script: `python judge_corpus.py CORPUS`. Each line has the entry's id, the
exit code, the rendered diagnostics, the signal that ended the process (0: none)
and its peak resident memory in KiB.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from power.artifact.inspection import inspect
from power.diagnostics import PowerError, as_text

MEMORY = 300 << 20
SECONDS = 2


def arguments(entry: dict[str, Any], corpus: Path) -> tuple[Path, str | None, Path | None]:
    """What `power inspect FILE [--kind K] [--target FILE]` is called with for an entry."""
    path = corpus / entry["path"]
    role = entry["role"]
    if role.startswith("draft of "):
        target = corpus / "gguf" / f"{role.removeprefix('draft of ')}.gguf"
        return path, "eagle3" if entry["id"].startswith("eagle3") else "draft-model", target
    return path, "mtp" if role == "target for strategy draft-mtp" else None, None


def judge(entry: dict[str, Any], corpus: Path) -> tuple[int, str]:
    try:
        report = inspect(*arguments(entry, corpus))
    except PowerError as error:
        return int(error.exit_code), as_text(error.diagnostics)
    return 0, json.dumps(report, allow_nan=False)


def in_child(entry: dict[str, Any], corpus: Path) -> dict[str, Any]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        with os.fdopen(writer, "w") as out:
            json.dump(judge(entry, corpus), out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    _, status, usage = os.wait4(pid, 0)
    code, shown = json.loads(text) if text else (None, "no answer")
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return {
        "id": entry["id"],
        "exit": code,
        "text": shown,
        "signal": ended,
        "peak_kib": usage.ru_maxrss,
    }


if __name__ == "__main__":
    root = Path(sys.argv[1])
    for item in json.loads((root / "corpus.json").read_text("utf-8"))["entries"]:
        print(json.dumps(in_child(item, root)))  # noqa: T201 - the script's output
        sys.stdout.flush()  # else the next fork would print it again
