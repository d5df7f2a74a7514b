"""The digest of what a manifest or profile says, whatever its layout."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

from power.manifest.model import Settings


def meaning(model: Settings) -> dict[str, Any]:
    """What the file wrote, as plain JSON values under the file's own keys; no defaults."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def meaning_sha256(model: Settings) -> str:
    """SHA-256, in hex, over the RFC 8785 form of `meaning(model)`.

    Key order, spacing, comments and spelling of numbers (`0`, `0.0`) make no
    difference; every written key and value does.
    """
    return hashlib.sha256(rfc8785.dumps(meaning(model))).hexdigest()
