"""Whether an installation refuses what has to be refused: `power conformance`.

The vectors that Power's own tests hold it against ship with it. Each is a manifest, a
plan, a GGUF or a receipt, with the verdict that it must get; nothing native is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from power.artifact.inspection import inspect
from power.diagnostics import PowerError, fail
from power.manifest.effective import load_effective
from power.manifest.load import load_profile
from power.manifest.shipped import shipped
from power.plan import lock
from power.receipt.trust import load_trust
from power.receipt.verify import verify_receipt

ACCEPT = "accept"
REFUSE = "refuse"  # by whichever code


@dataclass(frozen=True, slots=True)
class Vector:
    """One file: what it must get (`accept`, `refuse` or codes), and how it is judged."""

    group: str
    file: str
    expected: str
    judge: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Miss:
    """A vector that got another verdict."""

    group: str
    file: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Conformance:
    """How many vectors of each group there are and were judged right, and the others."""

    total: dict[str, int]
    misses: tuple[Miss, ...]

    def right(self, group: str) -> int:
        """How many of a group got their verdict."""
        return self.total[group] - sum(miss.group == group for miss in self.misses)


def check_conformance(folder: Path | None = None) -> Conformance:
    """Judge every vector below `folder`, by default those that ship.

    Raises PowerError P860 where there are none.
    """
    root = shipped("vectors") if folder is None else folder
    try:
        vectors = list(_vectors(root))
    except (OSError, ValueError, KeyError) as error:
        fail(
            "P860",
            "the vectors that an installation is held against cannot be read",
            place=str(root),
            found=f"{type(error).__name__}: {error}",
            hint="install Power again: they are a part of it",
        )
    total: dict[str, int] = {}
    misses = []
    for vector in vectors:
        total[vector.group] = total.get(vector.group, 0) + 1
        found = _verdict(vector.judge)
        refused = found != ACCEPT and vector.expected == REFUSE
        if found != vector.expected and not refused:
            misses.append(Miss(vector.group, vector.file, vector.expected, found))
    return Conformance(total, tuple(misses))


def _verdict(judge: Callable[[], object]) -> str:
    """`accept`, or the codes of the refusal, sorted; a crash is told by its name."""
    try:
        judge()
    except PowerError as error:
        return " ".join(sorted({found.code for found in error.diagnostics}))
    except Exception as error:  # noqa: BLE001 - whatever it is, this installation does not conform
        return f"{type(error).__name__} instead of a diagnostic"
    return ACCEPT


def _vectors(root: Path) -> Iterator[Vector]:
    yield from _manifests(root / "manifests")
    yield from _plans(root / "plans")
    yield from _artifacts(root / "corpus")
    yield from _receipts(root / "receipts")


def _read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _manifests(folder: Path) -> Iterator[Vector]:
    for entry in _read(folder / "index.json"):
        read = load_profile if entry["kind"] == "profile" else load_effective
        judge = partial(read, folder / entry["file"])
        yield Vector("manifests", entry["file"], entry["verdict"], judge)


def _plans(folder: Path) -> Iterator[Vector]:
    yield Vector("plans", "good.lock", ACCEPT, partial(lock.load, folder / "good.lock"))
    for path in sorted((folder / "refuse").iterdir()):
        yield Vector("plans", path.name, path.name.split("-")[0], partial(lock.load, path))


def _artifacts(folder: Path) -> Iterator[Vector]:
    for entry in _read(folder / "corpus.json")["entries"]:
        if entry["id"] == _ONLY_A_DIGEST_TELLS:
            continue
        target = kind = None
        role = entry["role"]
        if role.startswith("draft of "):
            target = folder / "gguf" / f"{role.removeprefix('draft of ')}.gguf"
            kind = "eagle3" if entry["id"].startswith("eagle3") else "draft-model"
        elif role == "target for strategy draft-mtp":
            kind = "mtp"
        expected = REFUSE if entry["verdict"] == "reject" else ACCEPT
        judge = partial(inspect, folder / entry["path"], kind, target)
        yield Vector("artifacts", entry["path"], expected, judge)


_ONLY_A_DIGEST_TELLS = "split-mixed"  # its headers are those of a sound model


def _receipts(folder: Path) -> Iterator[Vector]:
    trust = load_trust(folder / "trust.toml")
    plan, output = (folder / name for name in ("plan.lock", "output.txt"))
    for entry in _read(folder / "index.json"):
        judge = partial(
            verify_receipt,
            (folder / entry["file"]).read_bytes(),
            trust=trust,
            plan=plan.read_bytes(),
            output=output.read_bytes(),
        )
        expected = " ".join(sorted(entry["verdict"].split()))
        yield Vector("receipts", entry["file"], expected, judge)
