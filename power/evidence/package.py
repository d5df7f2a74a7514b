"""Evidence packages: a folder of reports and all they rest on, under one signed index.

Verifying needs neither a model nor an engine: every digest is computed again, every
receipt verified, every report and comparison derived anew, and the first figure
that does not follow is named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NoReturn

from power.diagnostics import PowerError, fail
from power.evidence.compare import Comparison, compare, pick
from power.evidence.derive import Read, derive, reader
from power.evidence.files import parse
from power.evidence.index import INDEX, open_index, sign_index
from power.evidence.layout import SUFFIX, Layout
from power.evidence.parts import Part, is_file_name
from power.evidence.quality import derive_matrix
from power.evidence.quality_report import Matrix
from power.evidence.report import Report
from power.manifest.files import irregular
from power.plan.files import write_atomic
from power.receipt.digests import sha256
from power.receipt.keys import PrivateKey
from power.receipt.trust import Trust, trust_in

_BROKEN = "do not rely on this package; ask its maker for the original"


@dataclass(frozen=True, slots=True)
class Package:
    """A package that held. files: SHA-256 by name; `index.sigstore.json` is not among them."""

    folder: Path
    files: Mapping[str, str]
    reports: Mapping[str, Report]
    comparisons: Mapping[str, Comparison]
    matrices: Mapping[str, Matrix]
    key: str

    @property
    def receipts(self) -> int:
        """How many receipts the reports and matrices rest on."""
        samples = sum(len(report.samples) for report in self.reports.values())
        return samples + sum(len(matrix.runs) for matrix in self.matrices.values())


def pack(folder: Path, key: PrivateKey) -> Package:
    """Verify everything in `folder` as a verifier would, then sign its index.

    Raises PowerError: P440 there is an index already, P855 a file that cannot be in a
    package, or no report; and what verifying raises: nothing that would not hold is signed.
    """
    index = folder / INDEX
    if os.path.lexists(index):
        fail(
            "P440",
            "the file exists and is not overwritten",
            place=str(index),
            hint="move the index away to pack the folder again",
        )
    data = _read_all(folder, "P855", "move it out of the folder")
    reports = _of_kind(data, Report)
    comparisons = _of_kind(data, Comparison)
    matrices = _of_kind(data, Matrix)
    if not reports and not matrices:
        fail(
            "P855",
            "the folder holds no report",
            place=str(folder),
            hint="put the report of `power bench -o FOLDER/NAME.json` and its files there",
        )
    trust = trust_in(key.public_key(), "the packer's own key")
    derived = _check(folder, data, reports, comparisons, trust)
    _check_matrices(folder, data, matrices, trust)
    files = {name: sha256(content) for name, content in data.items()}
    signed = sign_index(files, list(reports), list(comparisons), key, matrices=list(matrices))
    write_atomic(index, signed, overwrite=False)
    return Package(folder, files, derived, comparisons, matrices, "the packer's own key")


def verify(folder: Path, trust: Trust) -> Package:
    """Verify the package in `folder` with keys from outside.

    Raises PowerError, exit 3: P6xx the index's or a receipt's signature, P850 a file
    has another digest, P852 a bench lacks samples, P856 files are missing, were
    added or are no files, P854 a figure that does not follow. Exit 2: P853 no index,
    P855 the folder cannot be read.
    """
    place = folder / INDEX
    name = str(place)
    statement, key = open_index(_read(place), trust, name)
    data = _read_all(folder, "P856", _BROKEN)
    _check_files(statement.files, data, folder)
    contents = statement.predicate
    reports = {n: _parsed(data, n, Report) for n in contents.reports}
    comparisons = {n: _parsed(data, n, Comparison) for n in contents.comparisons}
    matrices = {n: _parsed(data, n, Matrix) for n in contents.matrices or ()}
    derived = _check(folder, data, reports, comparisons, trust)
    _check_matrices(folder, data, matrices, trust)
    return Package(folder, statement.files, derived, comparisons, matrices, key)


def _check(
    folder: Path,
    data: Mapping[str, bytes],
    reports: Mapping[str, Report],
    comparisons: Mapping[str, Comparison],
    trust: Trust,
) -> dict[str, Report]:
    """Derive every report and comparison again; the derived reports by name."""
    read, derived = _packed(folder, data), {}
    for name, stated in reports.items():
        derived[name] = derive(Layout(folder / name), read, trust)
        _same(name, derived[name], stated)
    by_digest = {sha256(data[name]): report for name, report in derived.items()}
    for name, comparison in comparisons.items():
        sides = []
        for what, side in (("base", comparison.base), ("candidate", comparison.candidate)):
            report = by_digest.get(side.report_sha256)
            if report is None:
                fail(
                    "P854",
                    f"`{name}` compares a report that is not in the package",
                    place=f"{name}: {what}.report_sha256",
                    found=side.report_sha256,
                    hint=_BROKEN,
                )
            sides.append(pick(report, side.report_sha256, side.arm, first=True))
        _same(name, compare(sides[0], sides[1], comparison.asked), comparison)
    return derived


def _check_matrices(
    folder: Path, data: Mapping[str, bytes], matrices: Mapping[str, Matrix], trust: Trust
) -> None:
    """Derive every quality matrix again."""
    read = _packed(folder, data)
    for name, stated in matrices.items():
        _same(name, derive_matrix(Layout(folder / name), read, trust), stated)


def _packed(folder: Path, data: Mapping[str, bytes]) -> Read:
    """Reads a file of the package: what was read once, and what is not there as `reader` says."""
    return lambda name: data[name] if name in data else reader(folder)(name)


def _same(name: str, derived: Part, stated: Part) -> None:
    """Refuse (P854) the first figure that does not follow."""
    found = first_difference(derived.document(), stated.document())
    if found is None:
        return
    path, expected, other = found
    fail(
        "P854",
        f"`{path}` does not follow from the receipts",
        place=f"{name}: {path}",
        expected=expected,
        found=other,
        hint=_BROKEN,
    )


def first_difference(expected: Any, found: Any, path: str = "") -> tuple[str, str, str] | None:
    """The first place, in document order, where `found` is not `expected`, and both values."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = dict.fromkeys([*expected, *found])
        inner = [(f"{path}.{k}" if path else k, expected.get(k), found.get(k)) for k in keys]
    elif isinstance(expected, list) and isinstance(found, list):
        pairs = enumerate(zip_longest(expected, found))
        inner = [(f"{path}[{number}]", left, right) for number, (left, right) in pairs]
    elif expected == found:
        return None
    else:
        return path, _shown(expected), _shown(found)
    different = (first_difference(left, right, place) for place, left, right in inner)
    return next((found for found in different if found is not None), None)


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)[:200]


def _check_files(stated: Mapping[str, str], data: Mapping[str, bytes], folder: Path) -> None:
    missing, added = sorted(stated.keys() - data.keys()), sorted(data.keys() - stated.keys())
    if missing or added:
        first = (missing or added)[0]
        fail(
            "P856",
            f"`{first}` is {'missing from' if missing else 'not a file of'} the package",
            place=str(folder / first),
            expected=f"the {len(stated)} files of the index",
            found=f"{len(missing)} missing, {len(added)} added",
            hint=_BROKEN,
        )
    for name, digest in stated.items():
        found = sha256(data[name])
        if found != digest:
            fail(
                "P850",
                f"`{name}` is not the file that was packed",
                place=str(folder / name),
                expected=digest,
                found=found,
                hint=_BROKEN,
            )


def _of_kind(data: Mapping[str, bytes], kind: type[Any]) -> dict[str, Any]:
    """The documents of one kind at the top of the folder."""
    schema = kind.model_fields["schema_"].default
    found = {}
    for name, content in data.items():
        # Power writes the schema first.
        if "/" not in name and name.endswith(SUFFIX) and f'"{schema}"'.encode() in content[:64]:
            found[name] = parse(content, name, kind)
    return found


def _parsed(data: Mapping[str, bytes], name: str, kind: type[Any]) -> Any:
    if name not in data:
        fail("P856", f"`{name}` is missing from the package", place=name, hint=_BROKEN)
    return parse(data[name], name, kind)


def _read_all(folder: Path, code: str, hint: str) -> dict[str, bytes]:
    """Every file of the folder but its index, by its name below it."""
    read = reader(folder)
    return {name: read(name) for name in sorted(_names(folder, code, hint)) if name != INDEX}


def _names(folder: Path, code: str, hint: str) -> Iterator[str]:
    try:
        for entry in sorted(folder.iterdir()):
            inside = entry.is_dir() and not entry.is_symlink()
            for path in entry.iterdir() if inside else [entry]:
                yield _name(folder, path, code, hint)
    except OSError as error:
        fail(
            "P855",
            f"the folder cannot be read: {error.strerror}",
            place=str(folder),
            hint="name the folder of an evidence package",
        )


def _name(folder: Path, path: Path, code: str, hint: str) -> str:
    name = path.relative_to(folder).as_posix()
    kind = irregular(path.lstat().st_mode)
    if kind is not None or not is_file_name(name):
        fail(
            code,
            "this cannot be in an evidence package",
            place=str(path),
            expected="regular files, at most one folder deep, of letters, digits, `.`, `_`, `-`",
            found=kind or f"the name `{name}`",
            hint=hint,
        )
    return name


def _read(path: Path) -> bytes:
    """The index; P853 when it is not there."""
    try:
        return reader(path.parent)(path.name)
    except PowerError:
        _no_index(path)


def _no_index(path: Path) -> NoReturn:
    fail(
        "P853",
        "this is no evidence package: it has no index",
        place=str(path),
        hint="name a folder that `power evidence pack` packed",
    )
