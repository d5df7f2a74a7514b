#!/usr/bin/env python3
"""Do what a page of docs/ says, block after block, in one shell: by default the tutorial's.

A block of `bash` is run, unless the line before it is `<!-- not run: WHY -->`; a block of `text`
right after it shows lines that its output must hold, in that order, where `…` stands for anything.
A block that fails ends the run. The tutorial's own folder, tutorial/, must not be there yet; it is
removed when all went well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tutorial" / "first-receipt.md"
FOLDER = ROOT / "tutorial"
FENCE = re.compile(
    r"^(?P<skip><!-- not run: [^\n]+ -->\n)?```(?P<kind>\w*)\n(?P<body>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
MARK = "\x1e"  # between the outputs of two blocks


@dataclass(frozen=True)
class Step:
    """One block to run, and the lines that its output must hold."""

    script: str
    expected: tuple[str, ...]


def steps(page: str) -> list[Step]:
    """Read the steps of a page; `text` without a block before it is prose."""
    found: list[Step] = []
    end = 0  # of the block before
    for block in FENCE.finditer(page):
        kind, body = block["kind"], block["body"]
        if kind == "bash" and not block["skip"]:
            found.append(Step(body, ()))
        elif kind == "text" and found and not page[end : block.start()].strip():
            found[-1] = Step(found[-1].script, tuple(body.splitlines()))
        end = block.end()
    return found


def lacking(output: str, expected: tuple[str, ...]) -> str | None:
    """Return the first expected line that `output` does not hold in order, or None."""
    lines = iter(output.splitlines())
    for line in expected:
        pattern = re.compile(".*".join(re.escape(part) for part in line.strip().split("…")))
        if not any(pattern.fullmatch(found.strip()) for found in lines):
            return line
    return None


def run(
    found: list[Step], folder: Path = ROOT, environment: dict[str, str] | None = None
) -> tuple[int, list[str]]:
    """Run the blocks as one script in `folder`: its exit code, the outputs of those that began."""
    script = "set -eo pipefail\n"
    for step in found:
        script += f"printf '{MARK}'\n{step.script}\n"
    shell = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith("POWER_")}
        | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return shell.returncode, shell.stdout.split(MARK)[1:]


def main() -> int:
    """Run the tutorial: 0 it works, 1 it does not, 2 its folder is in the way."""
    if FOLDER.exists():
        print(f"{FOLDER} is there from before; remove it first", file=sys.stderr)
        return 2
    found = steps(PAGE.read_text("utf-8"))
    code, outputs = run(found)
    problems = []
    for step, output in zip(found, outputs, strict=False):
        print("".join(f"$ {line}\n" for line in step.script.splitlines()) + output)
        line = lacking(output, step.expected)
        if line is not None:
            problems.append(f"the output lacks: {line}")
    if code:
        problems.append(f"block {len(outputs)} of {len(found)} ended with exit code {code}")
    for problem in problems:
        print(f"error: {PAGE.relative_to(ROOT)}: {problem}", file=sys.stderr)
    if not problems:
        shutil.rmtree(FOLDER)
        print(f"the tutorial works: {len(found)} blocks")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
