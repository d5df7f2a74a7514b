"""GBNF grammars: what hangs or overflows the library's parser is refused before it sees it."""

from __future__ import annotations

from typing import Any

from power.backends.llamacpp.gbnf import grammar_fault
from power.backends.llamacpp.library import LOG, native
from power.backends.llamacpp.model import Model
from power.diagnostics import fail


def grammar_sampler(text: str, model: Model) -> Any:
    """A native grammar sampler that starts at the rule `root`; the caller frees it.

    Raises PowerError P526.
    """
    reason = grammar_fault(text)
    link = None
    if reason is None:
        LOG.clear()
        link = native().llama_sampler_init_grammar(model.vocab, text.encode("utf-8"), b"root")
    if not link:
        fail(
            "P526",
            "the grammar is no GBNF that the engine can use",
            found=reason or LOG.problems() or None,
            hint="check `sampling.grammar`: it needs a rule `root` and every rule that it names",
        )
    return link
