"""The digest of what a manifest or profile says, whatever its layout."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

from power.manifest.model import Settings
from power.manifest.profile import Profile


def meaning(model: Settings) -> dict[str, Any]:
    """What the file wrote, as plain JSON values under the file's own keys; no defaults."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def meaning_sha256(model: Settings) -> str:
    """SHA-256, in hex, over the RFC 8785 form of `meaning(model)`.

    Key order, spacing, comments and spelling of numbers (`0`, `0.0`) make no
    difference; every written key and value does.
    """
    return _sha256(meaning(model))


def profile_sha256(profile: Profile) -> str:
    """The digest of a profile that plans hold: as `meaning_sha256`, without its evidence.

    Evidence is about plans that were made with the profile. If it counted, writing
    down what was measured would make every one of them another plan.
    """
    said = meaning(profile)
    said.pop("evidence", None)
    return _sha256(said)


def _sha256(said: dict[str, Any]) -> str:
    return hashlib.sha256(rfc8785.dumps(said)).hexdigest()
