"""DSpark: a DFlash block whose rows are corrected one after another by a Markov head.

The library walks the chain inside the graph: the logits of a row already have
what the head says after the most probable token of the row before. Where a
head of its own says how sure each row is, that bounds a proposal, else the
token's probability does.
"""

from __future__ import annotations

from power.backends.llamacpp.block_draft import Block, Read, open_block_draft, said_by
from power.backends.llamacpp.choice import check_number, most_probable
from power.backends.llamacpp.context import Context
from power.backends.llamacpp.drafting import Host, MakeDrafting
from power.backends.llamacpp.model import Model

_CONFIDENCE = "dflash.has_confidence_head"
_FROM_ANCHOR = "dflash.sample_from_anchor"


def open_dspark(host: Host) -> MakeDrafting:
    """The strategy `dspark`, on the plan's draft; raises PowerError P528."""
    p_min = host.config.draft_p_min

    def reader(context: Context, draft: Model) -> Read:
        # Without the key there may be no head, and then nobody writes the rows it would fill.
        confident = p_min > 0 and draft.text(_CONFIDENCE) == "true"
        if confident:
            context.expose_nextn(masked=True)
        return read_chain(said_by(host), p_min, confident=confident)

    return open_block_draft(host, reader=reader, from_anchor=_from_anchor)


def _from_anchor(draft: Model) -> bool:
    """Whether the anchor's own row says the first token; a file that is silent means yes."""
    return draft.text(_FROM_ANCHOR) != "false"


def read_chain(vocabulary: int | None, p_min: float, *, confident: bool) -> Read:
    """Read each row's most probable token below `vocabulary`, as far as the chain is sure.

    The rows behind a token that `vocabulary` leaves out were corrected for that
    token and not for the one proposed in its place: the proposal ends there.
    """
    of_token = 0.0 if confident else p_min

    def read(block: Block) -> list[int]:
        # Column 0 of a row, after a sigmoid; the library repeats it over the row's width.
        sure = block.context.nextn(block.rows)[:, 0] if confident else None
        proposal: list[int] = []
        for row in range(block.first, block.rows):
            logits = block.logits[row]
            if sure is not None:
                check_number(sure[row])
                if sure[row] < p_min:
                    break
            token = most_probable(logits[:vocabulary], of_token)
            if token is None:
                break
            proposal.append(token)
            if vocabulary is not None and logits[vocabulary:].max(initial=-1e38) > logits[token]:
                break
        return proposal

    return read
