"""The process that dies on demand, and a folder to die in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.conftest import CORPUS, manifest_for

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class End:
    """How a command ended; `code` is negative for a signal, 99 for a traceback."""

    pid: int
    code: int
    stdout: str
    stderr: str


class Zygote:
    """Runs commands in forked children, each with at most one fault."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._stdin, self._stdout = self._child.stdin, self._child.stdout
        assert self._stdout.readline() == "ready\n"

    def __call__(self, folder: Path, *arguments: str, **more: Any) -> End:
        """Run one command in `folder`; `more` may hold `call`, `fault` and `step`."""
        (end,) = self.together([{"folder": str(folder), "arguments": arguments} | more])
        return end

    def together(self, commands: Sequence[dict[str, Any]]) -> list[End]:
        """Run commands at once."""
        self._stdin.write(json.dumps(commands) + "\n")
        self._stdin.flush()
        return [End(**end) for end in json.loads(self._stdout.readline())]

    def close(self) -> None:
        self._stdin.close()
        self._child.wait()
        self._stdout.close()


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


def workers_of(pid: int) -> list[psutil.Process]:
    """Workers that the process `pid` started: its number is their last argument."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "power.runner.worker" in command and command[-1] == str(pid):
            found.append(process)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A target and a manifest of it."""
    shutil.copy(CORPUS / "good-v3-target.gguf", tmp_path / "target.gguf")
    (tmp_path / "manifest.toml").write_text(manifest_for(tmp_path / "target.gguf"), "utf-8")
    return tmp_path
