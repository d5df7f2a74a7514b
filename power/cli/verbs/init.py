"""`power init`: a manifest from the artifacts at hand."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from power.cli.console import Verb
from power.cli.options import FILE, format_option
from power.diagnostics import escape

if TYPE_CHECKING:
    from power.manifest.model import DraftKind


@click.command("init")
@click.argument("target", type=FILE, required=False)
@click.option("--draft", type=FILE, metavar="FILE", help="A draft for the target.")
@click.option(
    "--kind",
    type=click.Choice(["draft-model", "dflash", "dflash2", "dspark", "eagle3"]),
    help="The draft's kind; by default what its file says.",
)
@click.option("--name", metavar="NAME", help="The manifest's name; by default from the file's.")
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path("manifest.toml"),
    show_default=True,
    metavar="FILE",
    help="Where the manifest goes; never overwritten. Artifacts are looked up from its folder.",
)
@format_option("human", "json")
def command(
    target: Path | None,
    draft: Path | None,
    kind: DraftKind | None,
    name: str | None,
    output: Path,
    fmt: str,
) -> None:
    """Write a manifest for TARGET.gguf: sizes and digests are measured, the rest is explained.

    Without TARGET, the one GGUF of the working folder is taken, or the two that are a target and
    its draft.
    """
    with Verb("init", fmt) as verb:
        from power.plan.files import write_atomic
        from power.plan.starter import at_hand, starter

        if target is None:
            target, found = at_hand(Path())
            draft = draft or found
        with verb.progress("hashing") as progress:
            text = starter(
                target,
                draft=draft,
                kind=kind,
                name=name,
                folder=output.parent,
                progress=progress,
            )
        write_atomic(output, text.encode(), overwrite=False)
        verb.data["manifest"] = str(output)
        words = ["power", "compile", str(output)]
        for folder in dict.fromkeys(file.parent for file in (target, draft) if file is not None):
            if not folder.absolute().is_relative_to(output.parent.absolute()):
                words += ["--artifacts", str(folder)]
        verb.say(f"wrote {escape(str(output))}; next: {escape(shlex.join(words))}")
