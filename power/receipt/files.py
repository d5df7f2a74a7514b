"""Receipts as files: a new name each time, whole or not at all, never overwritten."""

from __future__ import annotations

import os
from pathlib import Path

from power.diagnostics import fail
from power.manifest.files import UnreadableError, nearby, read_regular
from power.manifest.text_rules import NAME
from power.plan.files import check_new, write_atomic
from power.receipt import bundle, strict_json, verify
from power.receipt.authentic import parse
from power.receipt.predicate import PREDICATE_TYPE, Statement
from power.receipt.private_files import make_folder

FOLDER = "receipts"
SUFFIX = ".sigstore.json"
PACKAGE_INDEX = f"index{SUFFIX}"
# Base64 and the bundle around a payload at its limit.
_FILE_LIMIT = 2 * strict_json.SIZE_LIMIT


def default_path(receipt: bytes, folder: Path) -> Path:
    """`FOLDER/TIME-PLAN-ID.sigstore.json` below `folder`: sorted by time, new for each run.

    TIME is when the run ended (UTC); ID begins the receipt's identity, the
    SHA-256 of what was signed.
    """
    envelope = bundle.decode(receipt)
    statement = parse(envelope, Statement, PREDICATE_TYPE, "receipt")
    name = statement.predicate.plan.name
    # A signed statement may say anything; a name that could be a path is left out.
    stem = f"{_stamp(statement)}-{name}" if NAME.fullmatch(name) else _stamp(statement)
    return folder / FOLDER / f"{stem}-{verify.receipt_id(envelope.payload)[:12]}{SUFFIX}"


def _stamp(statement: Statement) -> str:
    """`2026-08-23T10:11:12.345Z` as `20260823T101112Z`."""
    whole = statement.predicate.timing.finished.split(".", 1)[0].removesuffix("Z")
    return whole.replace("-", "").replace(":", "") + "Z"


def write_receipt(receipt: bytes, path: Path | None = None, folder: Path = Path()) -> Path:
    """Write to `path`, or to the default path below `folder`; returns where it is.

    Raises P440 when the file exists, P441 when it cannot be written.
    """
    target = default_path(receipt, folder) if path is None else path
    if path is None:
        make_folder(target.parent)
    write_atomic(target, receipt, overwrite=False)
    return target


def check_receipt_place(path: Path | None = None, folder: Path = Path()) -> None:
    """Refuse (P440, P441) before a run what `write_receipt` would refuse after it."""
    place = folder / FOLDER
    if path is not None:
        check_new(path)
    elif os.path.lexists(place):
        check_new(place / f"new{SUFFIX}")
    else:
        check_new(place)


def read_receipt(path: Path) -> bytes:
    """The bytes of a receipt file; P605 when it cannot be read or is larger than any receipt."""
    return read_signed(path, bundle.RECEIPT)


def read_signed(path: Path, kind: bundle.Kind) -> bytes:
    """The bytes of a signed document's file; P605 as of `read_receipt`."""
    try:
        return read_regular(path, _FILE_LIMIT)
    except UnreadableError as error:
        fail(
            "P605",
            f"the {kind.noun} cannot be read: {error}",
            place=str(path),
            hint=(nearby(path) if error.why == "absent" else None)
            or f"name a {kind.noun} that `{kind.made_by}` wrote",
        )


def default_certificate(lock: Path) -> Path:
    """`NAME.cert.sigstore.json` beside `NAME.lock`."""
    return lock.with_name(lock.name.removesuffix(".lock") + ".cert" + SUFFIX)
