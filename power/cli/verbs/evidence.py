"""`power evidence pack` and `power evidence verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from power.cli.console import Verb
from power.cli.options import FOLDER, format_option, key_option, passphrase_option, trust_options
from power.diagnostics import counted, escape

if TYPE_CHECKING:
    from power.evidence.package import Package


@click.group("evidence")
def command() -> None:
    """Pack reports with all they rest on, and verify such packages."""


@command.command("pack")
@click.argument("folder", type=FOLDER, metavar="DIR")
@key_option
@passphrase_option
@format_option("human", "json")
def pack(folder: Path, key: Path | None, passphrase_file: Path | None, fmt: str) -> None:
    """Sign an index of DIR, after verifying everything in it.

    DIR holds reports of `power bench` and `power quality` with the files beside them,
    comparisons that `power compare -o` wrote, and whatever else belongs to them.
    """
    with Verb("evidence-pack", fmt) as verb:
        from power.cli.signing import open_key
        from power.evidence import package
        from power.evidence.outputs import PackageOutput

        packed = package.pack(folder, open_key(key, passphrase_file))
        verb.data |= PackageOutput.of(packed).document()
        verb.say(f"packed {escape(str(folder))}: {_counts(packed)}")


@command.command("verify")
@click.argument("folder", type=FOLDER, metavar="DIR")
@trust_options
@format_option("human", "json")
def verify(folder: Path, key: Path | None, trust: Path | None, fmt: str) -> None:
    """Verify the package DIR with keys of your own: signatures, digests, and every figure.

    Neither a model nor an engine is needed. The first figure that does not follow is named.
    """
    with Verb("evidence-verify", fmt) as verb:
        from power.cli.trusting import given_trust
        from power.evidence import package
        from power.evidence.outputs import PackageOutput

        held = package.verify(folder, given_trust(key, trust, str(folder)))
        verb.data |= PackageOutput.of(held).document()
        verb.say(f"verified {escape(str(folder))}: {_counts(held)}")
        verb.say(f"signed by {escape(held.key)}")


def _counts(package: Package) -> str:
    matrices = counted(len(package.matrices), "quality matrix", "quality matrices")
    parts = [
        counted(len(package.files), "file"),
        counted(len(package.reports), "report"),
        counted(len(package.comparisons), "comparison"),
        *([matrices] if package.matrices else []),
        counted(package.receipts, "receipt"),
    ]
    return ", ".join(parts)
