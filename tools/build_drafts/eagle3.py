"""EAGLE-3 heads that are right only with the right features beside the right tokens.

A row has the target's features of one token and the embedding of the next. The
features, one step further, outvote everything else; the token votes for itself
and, always, for one fixed token that is hardly ever right. So features of the
row before are one step behind, and without features the fixed token wins.
Attention looks at its own row most and a little at those before it: what the
head remembers changes what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.build_drafts.walk import PHASE, SHARPNESS, TOKEN, File, Matrix, NarrowWalk, Sizes, Walk

INNER = 16
GAIN = 2.4  # of queries and of keys: a row before counts a few percent
TOKEN_VOTE, FIXED_VOTE = 0.5, 0.8
FIXED = 300  # the token whose successor that vote is for


@dataclass(frozen=True)
class Eagle3Draft:
    """A head for the targets of `walk`.

    walk: the target's, or a narrow one of it: then the head has another width than
    its target. own: has an embedding and an output head of its own, else they are the
    target's. rows: size of a reduced head with its `d2t` map.
    """

    name: str
    walk: Walk
    layers: tuple[int, int, int] = (1, 2, 3)
    own: bool = False
    rows: int | None = None

    def write(self, folder: Path) -> Path:
        """Write the file below `folder`."""
        walk, width = self.walk, self.walk.width
        file = File(
            folder / f"{self.name}.gguf", "eagle3", walk, Sizes(1, INNER, heads=1, head=width)
        )
        file.layers(self.layers)
        narrow = walk if isinstance(walk, NarrowWalk) else None
        file.number("target_hidden_size", width if narrow is None else narrow.source.width)
        file.flag("norm_before_residual", value=True)
        fused = walk.turn(0) if narrow is None else narrow.taken_in()
        fused[TOKEN, TOKEN] = 1.0
        file.weight("fc", np.hstack([fused / len(self.layers)] * len(self.layers)))
        file.weight("output_norm", np.full(width, SHARPNESS))
        file.ones(width, "blk.0.attn_norm", "blk.0.attn_norm_2")
        file.weight("blk.0.attn_q", self._nearest())
        file.weight("blk.0.attn_k", self._nearest())
        file.weight("blk.0.attn_v", self._votes())
        file.weight("blk.0.attn_output", np.eye(width))
        file.idle_feed_forward(0, width, INNER)
        if self.own:
            file.weight("token_embd", walk.embedding)
        if self.rows is not None:
            file.ids(walk.frequent(self.rows))
            file.weight("output", walk.head()[walk.frequent(self.rows)])
        elif self.own:
            file.weight("output", walk.head())
        return file.finish()

    def _nearest(self) -> Matrix:
        """Query and key [width, 2 * width]: the score falls off with the distance of two rows.

        Both are the same in every row of features; the pairs that turn quickly
        are the first ones, and a pair is two coordinates side by side.
        """
        width = self.walk.width
        out = np.zeros((width, 2 * width), np.float32)
        out[: width // 4 : 2, width + TOKEN] = GAIN
        return out

    def _votes(self) -> Matrix:
        """Values [width, 2 * width], of a token's embedding and of the features beside it.

        The row itself, which the residual adds, is taken away again.
        """
        walk = self.walk
        fixed = np.zeros((walk.width, walk.width))
        fixed[PHASE:, TOKEN] = walk.embedding[FIXED, PHASE:]
        token = TOKEN_VOTE * walk.turn(0) + FIXED_VOTE * fixed
        token[TOKEN, TOKEN] = TOKEN_VOTE  # what makes a row one of features does not fade
        return np.hstack([token, walk.turn(1) - walk.turn(0)]).astype(np.float32)
