"""`power key new` and `power key show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from power.cli.console import Verb
from power.cli.options import FILE, format_option, passphrase_option
from power.diagnostics import escape, fail

if TYPE_CHECKING:
    from power.receipt.keys import Kind


@click.group("key")
def command() -> None:
    """Make and show the keys that sign receipts."""


@command.command("new")
@click.argument("path", type=FILE, required=False)
@click.option(
    "--kind",
    type=click.Choice(["ed25519", "p256"]),
    default="ed25519",
    show_default=True,
    help="Ed25519, or ECDSA P-256 for tools that know no Ed25519.",
)
@click.option(
    "--passphrase", is_flag=True, help="Ask at the terminal, twice, for one to encrypt it with."
)
@passphrase_option
@format_option("human", "json")
def new(
    path: Path | None, kind: Kind, passphrase: bool, passphrase_file: Path | None, fmt: str
) -> None:
    """Make a private key at PATH (mode 0600, never overwritten) and PATH.pub beside it.

    Without PATH it becomes the key that `power run` uses by default.
    """
    with Verb("key-new", fmt) as verb:
        from power.receipt.keys import create, default_key_path
        from power.receipt.passphrase import from_prompt, given

        place = path or default_key_path()
        if passphrase and passphrase_file is not None:
            fail(
                "P704", "`--passphrase` and `--passphrase-file` exclude each other", hint="give one"
            )
        source = from_prompt(f"`{place}`", confirm=True) if passphrase else given(passphrase_file)
        made = create(place, kind=kind, passphrase=source)
        verb.data |= {
            "private": str(made.private),
            "public": str(made.public),
            "kind": kind,
            "keyid": made.keyid,
        }
        verb.say(f"private key  {escape(str(made.private))}")
        verb.say(f"public key   {escape(str(made.public))}")
        verb.say(f"key id       {made.keyid}")


@command.command("show")
@click.argument("path", type=FILE, required=False)
@format_option("human", "json")
def show(path: Path | None, fmt: str) -> None:
    """Show the public half of the key at PATH: its id and PEM, to put in a trust.toml."""
    with Verb("key-show", fmt) as verb:
        from power.receipt.keys import (
            default_key_path,
            keyid,
            kind_of,
            load_public,
            public_path,
            public_pem,
        )

        private = path or default_key_path()
        beside = public_path(private) if private.name else private
        public = load_public(beside if path is None or beside.is_file() else path)
        pem = public_pem(public).decode()
        verb.data |= {"keyid": keyid(public), "kind": kind_of(public), "pem": pem}
        verb.say(f"{kind_of(public)} {keyid(public)}")
        verb.out(pem)
