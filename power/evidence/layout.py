"""Where the files of a report lie: beside it, under its name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from power.diagnostics import fail
from power.receipt.files import default_certificate

SUFFIX = ".json"
_STEM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of the report at `report`, whose name ends in `.json`.

    X.json has X.journal.jsonl, X.prompts.jsonl, X.ARM.lock for each arm, X.ARM.cert.sigstore.json
    where that plan rests on a certificate, and the folder X.receipts; a quality matrix has
    X.tasks.jsonl too.
    """

    report: Path

    def __post_init__(self) -> None:
        """Refuse (P704) a name that other names cannot be made from."""
        name = self.report.name
        if not name.endswith(SUFFIX) or not _STEM.fullmatch(self.stem):
            fail(
                "P704",
                "the report's name does not fit",
                place=str(self.report),
                expected="letters, digits, `.`, `_` and `-`, ending in `.json`",
                hint="give a name such as `-o bench.json`",
            )

    @property
    def stem(self) -> str:
        """The report's name without its ending."""
        return self.report.name.removesuffix(SUFFIX)

    @property
    def folder(self) -> Path:
        """Where all of it lies."""
        return self.report.parent

    @property
    def journal(self) -> str:
        """The journal's name."""
        return f"{self.stem}.journal.jsonl"

    @property
    def prompts(self) -> str:
        """The name of the copy of the prompts."""
        return f"{self.stem}.prompts.jsonl"

    @property
    def tasks(self) -> str:
        """The name of the copy of the tasks."""
        return f"{self.stem}.tasks.jsonl"

    def lock(self, arm: str) -> str:
        """The name of the copy of a plan; `arm` is the last one that runs it."""
        return f"{self.stem}.{arm}.lock"

    def certificate(self, arm: str) -> str:
        """The name of the copy of a plan's certificate, beside its lock; `arm` as there."""
        return default_certificate(Path(self.lock(arm))).name

    @property
    def receipts(self) -> str:
        """The folder of receipts."""
        return f"{self.stem}.receipts"

    def receipt(self, number: int, arm: str, prompt: int) -> str:
        """The name of a sample's receipt; `prompt` counts from 0."""
        return f"{self.receipts}/{number:03d}-{arm}-{prompt + 1:04d}.sigstore.json"

    def path(self, name: str) -> Path:
        """A file of these."""
        return self.folder / name
