"""Which drafter runs a strategy: one row each, one module a model-backed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from power.backends.llamacpp.dflash import open_dflash
from power.backends.llamacpp.dflash2 import open_dflash2
from power.backends.llamacpp.draft_model import open_draft_model
from power.backends.llamacpp.drafting import Drafting, Host, MakeDrafting, Open
from power.backends.llamacpp.dspark import open_dspark
from power.backends.llamacpp.eagle3 import open_eagle3
from power.backends.llamacpp.mtp import open_mtp
from power.backends.lookup import NgramContext, PromptLookup
from power.backends.none import NoProposer


def _open_none(_host: Host) -> MakeDrafting:
    return lambda: Drafting(NoProposer())


def _open_prompt_lookup(host: Host) -> MakeDrafting:
    return lambda: Drafting(PromptLookup(max_width=host.config.draft_max))


def _open_ngram_context(host: Host) -> MakeDrafting:
    return lambda: Drafting(NgramContext(max_width=host.config.draft_max))


@dataclass(frozen=True, slots=True)
class Drafter:
    """How a strategy is opened, and where its draft comes from.

    external: from the plan's own draft files. native: from a block of the
    target's file, which is loaded for nothing else; the plan's draft is then no
    model but a table for that block's head. Neither: from the text.
    """

    open: Open
    external: bool = False
    native: bool = False

    def uses_draft(self, fr_rule: str) -> bool:
        """Whether a plan with this rule of its draft's head has a draft file for it."""
        return self.external or (self.native and fr_rule == "d2t")


DRAFTERS: Mapping[str, Drafter] = {
    "off": Drafter(_open_none),
    "prompt-lookup": Drafter(_open_prompt_lookup),
    "ngram-context": Drafter(_open_ngram_context),
    "draft-model": Drafter(open_draft_model, external=True),
    "mtp": Drafter(open_mtp, native=True),
    "dflash": Drafter(open_dflash, external=True),
    "dflash2": Drafter(open_dflash2, external=True),
    "dspark": Drafter(open_dspark, external=True),
    "eagle3": Drafter(open_eagle3, external=True),
}
"""Strategy -> its drafter. `capabilities.NEEDS` says which of them a build can run."""
