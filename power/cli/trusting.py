"""The verifier's keys, as the options of a verb name them."""

from __future__ import annotations

from pathlib import Path

from power.diagnostics import fail
from power.receipt.keys import load_public
from power.receipt.trust import Trust, load_trust, trust_in


def given_trust(key: Path | None, trust: Path | None, place: str) -> Trust:
    """Trust in one key, or in a list of them.

    Raises PowerError: P704 both were given, P612 neither, and what reading them raises.
    """
    if key is not None and trust is not None:
        fail("P704", "`--key` and `--trust` exclude each other", hint="give one")
    if key is not None:
        return trust_in(load_public(key))
    if trust is not None:
        return load_trust(trust)
    return fail(
        "P612",
        "there is no key to verify with: trust never comes from what is verified",
        place=place,
        hint="give the signer's public key with `--key`, or your own list with `--trust`",
    )
