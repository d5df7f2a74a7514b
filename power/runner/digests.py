"""Digests of a run's outputs, as receipts and batches give them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

TOKEN_IDS_DOMAIN = b"power-token-ids-v1\0"
"""Keeps the digest of token ids from ever being that of another kind of thing."""


def token_ids_sha256(ids: Sequence[int]) -> str:
    """SHA-256 over the domain and each id (0 to 2^32 - 1) as four bytes, little end first."""
    return hashlib.sha256(TOKEN_IDS_DOMAIN + struct.pack(f"<{len(ids)}I", *ids)).hexdigest()
