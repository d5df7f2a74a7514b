"""DFlash2: each row offers a few candidates, and a walk through them picks a chain.

A row of the lattice, float32 [width of the draft], begins with k candidates
(ids as floats, exact below 2**24) and k * k scores of them, grouped by the
candidate of the row before that is their predecessor. The walk takes the best
successor row by row. In the first row all predecessors are the anchor.
"""

from __future__ import annotations

import math

import numpy as np

from power.backends.llamacpp.block_draft import Block, Read, open_block_draft
from power.backends.llamacpp.choice import check_number
from power.backends.llamacpp.context import Context
from power.backends.llamacpp.drafting import Host, MakeDrafting
from power.backends.llamacpp.extensions import extension
from power.backends.llamacpp.model import Model


def open_dflash2(host: Host) -> MakeDrafting:
    """The strategy `dflash2`, on the plan's draft; raises PowerError P528."""

    def reader(context: Context, draft: Model) -> Read:
        context.expose_nextn(masked=False)  # the lattice is of all rows, and none gives logits
        top_k: int = extension("model_dflash_selector_top_k")(draft.handle)
        return walk(top_k, host.config.draft_p_min)

    return open_block_draft(host, reader=reader, logits=False)


def walk(top_k: int, p_min: float) -> Read:
    """Read the chain of best successors, while each has the probability `p_min` among them."""

    def read(block: Block) -> list[int]:
        lattice = block.context.nextn(block.rows)
        proposal: list[int] = []
        previous = 0
        for row in lattice[block.first :]:
            scores = row[top_k * (1 + previous) : top_k * (2 + previous)]
            previous = int(scores.argmax())
            best = scores[previous]
            if best == -math.inf:  # no successor
                break
            check_number(best)
            if p_min > 0 and 1.0 / float(np.exp(scores - best).sum()) < p_min:
                break
            proposal.append(int(row[previous]))
        return proposal

    return read
