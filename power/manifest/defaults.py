"""Values that a manifest leaves out and that follow from others: counts of rows or tokens."""

from __future__ import annotations

from power.manifest.model import Graph, Settings

_PREFILL = 512
_MAX_TOKENS = 256


def rows(settings: Settings, *, speculates: bool) -> int | None:
    """Rows of a fixed shape, by default K + 1, without a proposer 1; None for a natural one."""
    graph, k = settings.graph, settings.speculation.spec_draft_max
    if graph.shape == "natural":
        return None
    return graph.rows or (k + 1 if speculates else 1)


def batch(settings: Settings, *, speculates: bool) -> int:
    """B, by default just what K and the fixed rows need."""
    needed = settings.speculation.spec_draft_max + 2 if speculates else 1
    return settings.graph.batch or max(needed, rows(settings, speculates=speculates) or 1)


def prefill_batch(graph: Graph) -> int:
    """Tokens of a prefill pass, by default 512 or the context where that is smaller."""
    return graph.prefill_batch or min(_PREFILL, graph.context)


def max_tokens(settings: Settings) -> int:
    """Most output tokens, by default 256 or what the context leaves behind one token."""
    return settings.sampling.max_tokens or min(_MAX_TOKENS, settings.graph.context - 1)
