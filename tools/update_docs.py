#!/usr/bin/env python3
"""Write the generated parts of docs/reference again; with --check, only say whether they differ.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end: NAME -->`. What is
around it is written by hand and left alone.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from power.cli.app import app
from power.diagnostics import CODES

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import reference_tables, schemas  # noqa: E402 - beside this program, wherever it is run from

WIDTH = 98  # of the text; what click leaves of its own limit of 100 columns
RANGES = {
    "P1": "Manifest and profile",
    "P2": "Artifacts: lookup, digests, the GGUF container",
    "P3": "What a target or a draft must be",
    "P4": "Plan",
    "P5": "Run",
    "P6": "Keys and receipts",
    "P7": "Command line",
    "P8": "Evidence",
}


def verbs(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, str]]:
    """Yield every verb and its help, `name` first, as `--help` prints it on a wide terminal."""
    settings: dict[str, Any] = {**command.context_settings, "terminal_width": WIDTH}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                yield from verbs(found, inner, context)


def cli() -> str:
    """Help of every verb, each under its heading."""
    return "\n\n".join(f"### {name}\n\n```text\n{text}\n```" for name, text in verbs(app, "power"))


def diagnostics() -> str:
    """Every code of the registry, by range."""
    parts = []
    for start, codes in groupby(CODES.values(), key=lambda code: code.code[:2]):
        parts.append(f"## {RANGES[start]}")
        for code in codes:
            text = re.sub(r"\s*\n(?!\n)\s*", "\n", code.text)
            parts.append(f"### {code.code}: {code.title}\n\nExit code {int(code.exit)}. {text}")
    return "\n\n".join(parts)


PARTS: dict[str, Callable[[], str]] = {
    "cli": cli,
    "diagnostics": diagnostics,
    "manifest": reference_tables.manifest,
    "profile": reference_tables.profile,
    "plan": reference_tables.plan,
}


def updated(text: str) -> str:
    """Put each generated part of a page in place; KeyError for a name that no generator has."""
    return re.sub(
        r"(<!-- generated: (\w+) -->\n).*?(<!-- end: \2 -->)",
        lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


def main() -> int:
    """Update every page of docs/; 1 with --check where one is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = 0
    pages = [(page, None) for page in sorted((ROOT / "docs").rglob("*.md"))]
    for page, text in (*pages, *((ROOT / path, text) for path, text in schemas.schemas())):
        old = page.read_text("utf-8") if page.is_file() else ""
        new = updated(old) if text is None else text
        if new != old:
            stale += 1
            print(f"{page.relative_to(ROOT)}: {'out of date' if check else 'updated'}")
            if not check:
                page.parent.mkdir(exist_ok=True)
                page.write_text(new, "utf-8")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
