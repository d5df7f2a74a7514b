"""Targets of the draft fixtures: the walk, with layers that push it off in places."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.build_drafts.walk import File, Sizes, Walk

BLOCKS = 4


@dataclass(frozen=True)
class LlamaTarget:
    """A llama model.

    push: scale of what its random layers add to a row. It makes the next token
    depend on everything before, so that a cell too many or too few shows.
    swaps: pairs of tokens whose successors are exchanged, which a head that
    was not made for this very target does not know.
    """

    name: str
    walk: Walk
    push: float
    swaps: int = 16
    heads: int = 4

    def write(self, folder: Path) -> Path:
        """Write the file below `folder`."""
        width = self.walk.width
        sizes = Sizes(BLOCKS, width, self.heads, width // self.heads)
        file = File(folder / f"{self.name}.gguf", "llama", self.walk, sizes)
        rng = np.random.default_rng(11)

        def random(block: int, name: str, scale: float) -> None:
            matrix = rng.standard_normal((width, width)) * scale / width**0.5
            file.weight(f"blk.{block}.{name}", matrix)

        file.weight("token_embd", self.walk.embedding)
        file.ones(width, "output_norm")
        file.weight("output", self.walk.head(self.swaps))
        for block in range(BLOCKS):
            file.ones(width, f"blk.{block}.attn_norm", f"blk.{block}.ffn_norm")
            for name, scale in (
                ("attn_q", 2.0),
                ("attn_k", 2.0),
                ("attn_v", 1.0),
                ("attn_output", self.push),
                ("ffn_gate", 1.0),
                ("ffn_up", 1.0),
                ("ffn_down", self.push),
            ):
                random(block, name, scale)
        return file.finish()
