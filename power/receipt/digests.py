"""Digests of what a receipt speaks of, each in its own domain.

A prefix that ends in a zero byte keeps the digest of one kind of thing from
ever being that of another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import rfc8785

from power.runner.digests import TOKEN_IDS_DOMAIN, token_ids_sha256

__all__ = [
    "TOKEN_IDS_DOMAIN",
    "decimal",
    "document_sha256",
    "sha256",
    "stop_sha256",
    "token_ids_sha256",
]

STOP_DOMAIN = b"power-stop-v1\0"
SAMPLING_DOMAIN = b"power-sampling-v1\0"
CLAIM_DOMAIN = b"power-claim-v1\0"


def sha256(data: bytes) -> str:
    """SHA-256 of `data` as hex."""
    return hashlib.sha256(data).hexdigest()


def document_sha256(domain: bytes, document: Any) -> str:
    """SHA-256 over the domain and the RFC 8785 form of `document`, which holds no float."""
    return sha256(domain + rfc8785.dumps(document))


def stop_sha256(stop: Sequence[str]) -> str | None:
    """Digest of the stop sequences in their order; None when there are none."""
    return document_sha256(STOP_DOMAIN, list(stop)) if stop else None


def decimal(value: float) -> str:
    """The shortest decimal that reads back as `value` (finite), without exponent: 0.1, 1, -2.5."""
    text = format(Decimal(repr(float(value))).normalize(), "f")
    return "0" if text == "-0" else text
