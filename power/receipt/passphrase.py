"""Where a key's passphrase comes from: a file, the environment or a prompt, never an argument."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from pathlib import Path

from power.diagnostics import fail
from power.receipt.private_files import read_private

PASSPHRASE_VARIABLE = "POWER_KEY_PASSPHRASE"  # noqa: S105 - its name, not its value
_LONGEST = 1023  # bytes that the encryption of a PEM file takes

PassphraseSource = Callable[[], bytes]
"""Called only when a key turns out to be encrypted; returns at least one byte."""


def from_file(path: Path) -> PassphraseSource:
    """The first line of a file that only its owner can read."""

    def read() -> bytes:
        line = read_private(path, "passphrase file").split(b"\n", 1)[0]
        return _usable(line.removesuffix(b"\r"), f"the passphrase file `{path}`")

    return read


def from_environment(variable: str = PASSPHRASE_VARIABLE) -> PassphraseSource:
    """The value of an environment variable."""

    def read() -> bytes:
        return _usable(os.environb.get(os.fsencode(variable), b""), f"`{variable}`")

    return read


def from_prompt(what: str, *, confirm: bool = False) -> PassphraseSource:
    """What a person types at the terminal, without echo; twice when it is new."""

    def read() -> bytes:
        if not _has_terminal():
            fail(
                "P604",
                f"there is no terminal to ask for the passphrase of {what}",
                hint=f"give it by file, or in `{PASSPHRASE_VARIABLE}`",
            )
        try:
            first = getpass.getpass(f"Passphrase for {what}: ")
            again = getpass.getpass("Once more: ") if confirm else first
        except EOFError:
            fail("P604", "no passphrase was typed", hint="run the command at a terminal")
        if first != again:
            fail("P604", "the two passphrases differ", hint="try again")
        return _usable(first.encode(), "the passphrase typed")

    return read


def _has_terminal() -> bool:
    """Without one getpass would take the passphrase from standard input, where a prompt may be."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def given(file: Path | None) -> PassphraseSource | None:
    """The file when there is one, else the environment variable when it is set, else None."""
    if file is not None:
        return from_file(file)
    return from_environment() if PASSPHRASE_VARIABLE in os.environ else None


def _usable(value: bytes, where: str) -> bytes:
    if not value:
        fail("P604", f"{where} is empty", hint="give a passphrase of at least one character")
    if len(value) > _LONGEST:
        fail(
            "P604",
            f"{where} is too long",
            expected=f"at most {_LONGEST} bytes",
            found=f"{len(value)} bytes",
            hint="give a shorter one",
        )
    return value
