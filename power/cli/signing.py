"""The signer's side of a run: the key is opened before the run, the receipt made after it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from power.cli.execution import Execution
from power.diagnostics import fail
from power.receipt.bundle import sign
from power.receipt.files import check_receipt_place, write_receipt
from power.receipt.keys import (
    KEY_VARIABLE,
    PrivateKey,
    PublicKey,
    default_key_path,
    load_private,
)
from power.receipt.passphrase import from_prompt, given
from power.receipt.statement import build_statement
from power.runner.types import Request, RunRecord


@dataclass(frozen=True, slots=True)
class Issued:
    """A receipt as it was written."""

    path: Path
    claim_sha256: str


def open_key(key: Path | None, passphrase_file: Path | None) -> PrivateKey:
    """The private key that signs: the one named, else the user's own.

    Raises PowerError: P707 there is none, P60x it cannot be used.
    """
    named = os.environ.get(KEY_VARIABLE)
    path = key or default_key_path()
    # os.path: a folder that may not be entered holds no key for us either
    if key is None and not os.path.exists(path):  # noqa: PTH110
        fail(
            "P707",
            "there is no key to sign the receipt with",
            place=f"{KEY_VARIABLE}: {path}" if named else str(path),
            hint="make one with `power key new`, or name yours with `--key FILE`",
        )
    return load_private(path, given(passphrase_file) or from_prompt(f"`{path}`"))


class OwnKey:
    """The user's private key, opened once, when it is first asked for.

    Raises then what `open_key` does.
    """

    def __init__(self, key: Path | None, passphrase_file: Path | None) -> None:
        self._key, self._passphrase_file = key, passphrase_file

    @cached_property
    def private(self) -> PrivateKey:
        """What signs."""
        return open_key(self._key, self._passphrase_file)

    def public(self) -> PublicKey:
        """What verifies."""
        return self.private.public_key()


class Signer:
    """Signs receipts with one key; what would stop it is found before the run.

    receipt: where the one receipt goes; None: a new name each time.
    Raises PowerError: P440 `receipt` exists, P707 there is no key, P60x it cannot be used.
    """

    def __init__(self, key: OwnKey, receipt: Path | None = None) -> None:
        check_receipt_place(receipt)
        self._receipt = receipt
        self._key = key.private

    def issue(self, execution: Execution, request: Request, record: RunRecord) -> Issued:
        """Sign for a finished run of `execution` and write the receipt."""
        certified = execution.certified
        statement = build_statement(
            execution.plan,
            execution.plan_bytes,
            request,
            record,
            certificate=None if certified is None else certified.data,
        )
        written = write_receipt(sign(statement, self._key), self._receipt)
        return Issued(written, statement["predicate"]["claim_sha256"])
