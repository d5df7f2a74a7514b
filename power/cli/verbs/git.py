"""`power git`: how git shows and merges plans."""

from __future__ import annotations

from pathlib import Path

import click

from power.cli.console import Verb, write_stderr
from power.cli.options import FILE, artifact_roots, format_option
from power.diagnostics import ExitCode, PowerError, as_text, escape


@click.group("git")
def command() -> None:
    """Have git show plans as `power show` does, and compile them again instead of merging."""


@command.command("setup")
@click.option(
    "--global", "everywhere", is_flag=True, help="Write the config of the user, not the repository."
)
@format_option("human", "json")
def setup(everywhere: bool, fmt: str) -> None:
    """Write .gitattributes lines and git config in this repository; say what was written.

    Again and again: what is there already stays as it is.
    """
    with Verb("git-setup", fmt) as verb:
        from power.review.setup import set_up

        done = set_up(Path(), everywhere=everywhere)
        verb.data["lines"] = [
            {"place": one.place, "line": one.line, "there": one.there} for one in done
        ]
        for one in done:
            state = "there" if one.there else "wrote"
            verb.say(f"{state}  {one.place}: {escape(one.line)}")
        if any(one.place == "attributes" and not one.there for one in done):
            verb.say("next: commit .gitattributes; the config is this clone's own")


@command.command("merge")
@click.argument("base", type=FILE)
@click.argument("ours", type=FILE)
@click.argument("theirs", type=FILE)
@click.argument("marker", type=int)
@click.argument("path")
def merge(base: Path, ours: Path, theirs: Path, marker: int, path: str) -> None:
    """Merge three versions of the plan at PATH by compiling again: git calls this.

    The result goes into OURS. Exit 1, with conflict markers of MARKER characters in OURS, where
    the manifests conflict, an artifact is absent, or the file is no plan.
    """
    from power.backends.registry import backend
    from power.plan.compile import compile_manifest
    from power.plan.files import replace_text
    from power.review.git import WorkTree
    from power.review.merging import Sides, leave_conflict, merged

    def compile_it(manifest: Path, profile: str | None, folder: Path) -> str:
        compiled = compile_manifest(
            manifest,
            profile=profile,
            roots=[folder, *artifact_roots(())],
            engine=backend().describe(),
        )
        return compiled.text

    try:
        sides = Sides(*(file.read_text("utf-8") for file in (base, ours, theirs)))
        replace_text(ours, merged(WorkTree(Path()), path, sides, compile_it))
        write_stderr(f"power: compiled {escape(path)} again")
    except (PowerError, OSError, UnicodeDecodeError) as error:
        if isinstance(error, PowerError):
            write_stderr(as_text(error.diagnostics[:1]))
        leave_conflict(base, ours, theirs, marker)
        raise SystemExit(int(ExitCode.NO)) from None
