"""DFlash: row i of a block says the token i places behind the anchor, all at once.

The rows do not see each other's tokens, only each other's masks: a proposal is
as good as its words are independent.
"""

from __future__ import annotations

from power.backends.llamacpp.block_draft import Block, Read, open_block_draft, said_by
from power.backends.llamacpp.choice import most_probable
from power.backends.llamacpp.drafting import Host, MakeDrafting


def open_dflash(host: Host) -> MakeDrafting:
    """The strategy `dflash`, on the plan's draft; raises PowerError P528."""
    read = read_rows(said_by(host), host.config.draft_p_min)
    return open_block_draft(host, reader=lambda _context, _draft: read)


def read_rows(vocabulary: int | None, p_min: float) -> Read:
    """Read each row's most probable token below `vocabulary`, while its probability is `p_min`."""

    def read(block: Block) -> list[int]:
        proposal: list[int] = []
        for row in range(block.first, block.rows):
            token = most_probable(block.logits[row][:vocabulary], p_min)
            if token is None:
                break
            proposal.append(token)
        return proposal

    return read
