"""Comparisons of files: reports read, arms picked, the result written."""

from __future__ import annotations

import json
from pathlib import Path

from power.evidence.compare import Arm, Asked, Comparison, compare, pick
from power.evidence.files import parse, read_bytes
from power.evidence.report import Report
from power.plan.files import write_atomic
from power.receipt.digests import sha256


def compare_files(
    base: Path,
    candidate: Path | None,
    asked: Asked,
    *,
    base_arm: str | None = None,
    candidate_arm: str | None = None,
) -> Comparison:
    """Compare arms of the report `base`, or of two reports.

    Unnamed arms: of one report its first and last, of two the last of each.
    Raises PowerError: P801 what is no report, P831 an arm that is not there.
    """
    first = read_report(base)
    second = first if candidate is None else read_report(candidate)
    return compare(
        _pick(first, base_arm, first=candidate is None),
        _pick(second, candidate_arm, first=False),
        asked,
    )


def _pick(read: tuple[Report, str], name: str | None, *, first: bool) -> Arm:
    return pick(*read, name, first=first)


def read_report(path: Path) -> tuple[Report, str]:
    """The report at `path`, and the SHA-256 of its file; raises PowerError P801."""
    data = read_bytes(path)
    return parse(data, str(path), Report), sha256(data)


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write it as a new file; raises PowerError P440, P441."""
    text = json.dumps(comparison.document(), indent=1) + "\n"
    write_atomic(path, text.encode("ascii"), overwrite=False)
