"""The strategies this adapter executes, and why it does not execute the others."""

from __future__ import annotations

from collections.abc import Mapping

_NOT_YET = "the llamacpp adapter does not execute this draft kind yet"

CAPABILITIES: Mapping[str, str | None] = {
    "off": None,
    "prompt-lookup": None,
    "ngram-context": None,
    "draft-model": None,
    "mtp": _NOT_YET,
    "dflash": _NOT_YET,
    "dflash2": _NOT_YET,
    "dspark": _NOT_YET,
    "eagle3": _NOT_YET,
}
"""Strategy -> None when it runs here, else the reason why not."""
