"""Which proposer runs a strategy: one row each."""

from __future__ import annotations

from power.backends.interface import EngineConfig, Proposer
from power.backends.llamacpp.context import Context
from power.backends.llamacpp.draft_model import DraftModel
from power.backends.lookup import NgramContext, PromptLookup
from power.backends.none import NoProposer
from power.diagnostics import fail


def make_proposer(strategy: str, config: EngineConfig, draft: Context | None) -> Proposer:
    """A fresh proposer for one request. `draft`: the context of the draft's own model."""
    width = config.draft_max
    if strategy == "off":
        return NoProposer()
    if strategy == "prompt-lookup":
        return PromptLookup(max_width=width)
    if strategy == "ngram-context":
        return NgramContext(max_width=width)
    if strategy == "draft-model" and draft is not None:
        return DraftModel(draft, max_width=width, p_min=config.draft_p_min)
    return fail(
        "P529",
        f"the strategy `{strategy}` was opened without its draft",
        hint="declare the draft in the manifest's `[draft]` and compile the plan again",
    )
