"""`power fmt`: manifests and profiles in their canonical form."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from power.cli.console import Verb
from power.cli.options import FILE, format_option
from power.diagnostics import ExitCode, PowerError, escape


@click.command("fmt")
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a file would change.")
@format_option("human", "json", "github")
def command(files: tuple[Path, ...], check: bool, fmt: str) -> None:
    """Put the keys of FILES, manifests and profiles, into the order of the reference.

    Values and comments stay: a comment moves with the key that it stands at. `-` reads standard
    input and writes standard output.
    """
    with Verb("fmt", fmt) as verb:
        from power.manifest.formatted import Formatted, formatted
        from power.manifest.read import read_bytes
        from power.plan.files import replace_text

        done: list[tuple[Path, Formatted]] = []
        for path in files:
            try:
                data = sys.stdin.buffer.read() if str(path) == "-" else read_bytes(path, "file")
                done.append((path, formatted(data, str(path))))
            except PowerError as error:
                verb.note(error.diagnostics)
                verb.answer(max(verb.exit_code, error.exit_code))
        changed = [(path, found) for path, found in done if found.differs is not None]
        verb.data["changed"] = [str(path) for path, _ in changed]
        if check:
            verb.note(found.differs for _, found in changed if found.differs is not None)
            if changed:
                verb.answer(max(verb.exit_code, ExitCode.NO))
            return
        for path, found in done:
            if str(path) == "-":
                verb.data["text"] = found.text
                verb.out(found.text)
            elif found.differs is not None:
                replace_text(path, found.text)
                verb.say(f"formatted {escape(str(path))}")
