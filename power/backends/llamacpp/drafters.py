"""Which drafter runs a strategy: one row each, one module a model-backed one."""

from __future__ import annotations

from collections.abc import Mapping

from power.backends.llamacpp.draft_model import open_draft_model
from power.backends.llamacpp.drafting import Drafting, Host, MakeDrafting, Open
from power.backends.llamacpp.mtp import open_mtp
from power.backends.lookup import NgramContext, PromptLookup
from power.backends.none import NoProposer


def _open_none(_host: Host) -> MakeDrafting:
    return lambda: Drafting(NoProposer())


def _open_prompt_lookup(host: Host) -> MakeDrafting:
    return lambda: Drafting(PromptLookup(max_width=host.config.draft_max))


def _open_ngram_context(host: Host) -> MakeDrafting:
    return lambda: Drafting(NgramContext(max_width=host.config.draft_max))


DRAFTERS: Mapping[str, Open] = {
    "off": _open_none,
    "prompt-lookup": _open_prompt_lookup,
    "ngram-context": _open_ngram_context,
    "draft-model": open_draft_model,
    "mtp": open_mtp,
}
"""Strategy -> what opens it. `capabilities.NEEDS` says which of them a build can run."""

NATIVE_HEADS = frozenset({"mtp"})
"""Strategies whose draft is a part of the target's own file."""
