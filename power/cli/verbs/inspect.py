"""`power inspect`: a GGUF file's header facts and the draft contracts that hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from power.cli.console import Verb
from power.cli.options import FILE, format_option

KINDS = ("draft-model", "mtp", "dflash", "dflash2", "dspark", "eagle3")


@click.command("inspect")
@click.argument("file", type=FILE)
@click.option("--kind", type=click.Choice(KINDS), help="Check FILE as a draft of this kind.")
@click.option("--target", type=FILE, metavar="FILE", help="The target that FILE is a draft for.")
@format_option("human", "json")
def command(file: Path, kind: str | None, target: Path | None, fmt: str) -> None:
    """Show what FILE.gguf holds, and check it as a target or as a draft.

    Only the header is read; no native code sees the file.
    """
    with Verb("inspect", fmt) as verb:
        from power.artifact.inspection import inspect

        report = inspect(file, kind, target)
        verb.data |= report
        verb.out("\n".join(_lines(report)))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """The report for a person; its texts are escaped already."""

    def row(name: str, value: object) -> str:
        return f"{name:<22}{value}"

    tensors = report["tensors"]
    kinds = ", ".join(f"{count} {name}" for name, count in tensors["types"].items())
    yield row("file", report["file"])
    yield row("bytes", f"{report['bytes']:,}")
    if len(report["files"]) > 1:
        yield from (row("shard", f"{f['name']}  {f['bytes']:,}") for f in report["files"])
    yield row("container", f"GGUF v{report['gguf_version']}, alignment {report['alignment']}")
    yield row("tensors", f"{tensors['count']} ({kinds}), {tensors['bytes']:,} bytes")
    yield row("judged as", report["judged_as"])
    for name, value in (report["facts"] or {}).items():
        if value is not None:
            yield row(name.replace("_", " "), _shown(value))
    for name, token in report.get("special_tokens", {}).items():
        yield row(name, f"{token['id']} {token['text']}")
    if "end_of_generation" in report:
        yield row("end of generation", ", ".join(map(str, report["end_of_generation"])))
    if report.get("serves"):
        yield row("can serve", ", ".join(report["serves"]))
    for contract in report["contracts"]:
        answer = "holds" if contract["holds"] else f"no: {contract['reasons'][0]}"
        yield row(f"as {contract['kind']}", answer)
    for note in report.get("pair", {}).get("notes", ()):
        yield row("note", note)


def _shown(value: object) -> object:
    """A fact in words: yes, no, or what it is; a text that the file leaves empty as `-`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value == "" else value
