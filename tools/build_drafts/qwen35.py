"""A hybrid target: a recurrent state beside a KV cache, and a prediction block of its own.

The trunk walks the cycle and is pushed off it by random layers of both kinds,
so that a recurrent state that is one token off shows in the logits.

The prediction block (MTP) gets two votes, as the DFlash heads do: the token's
embedding alone prefers a wrong successor, the hidden state alone another wrong
one, and together they agree on the right one. Its attention pushes as well: a
row too many in its memory shows in what it proposes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from power.artifact.contracts.common import NATIVE_TABLE
from power.artifact.contracts.ranked import TABLE
from tools.build_drafts.walk import TOKEN, File, Matrix, Sizes, Walk

TRUNK = 4
INTERVAL = 2  # every second block is attention
HEADS, KV_HEADS, HEAD = 4, 2, 16
INNER = 64
CONV, STATE, GROUPS, RANK = 4, 32, 2, 4
SECTIONS = (3, 3, 2, 0)  # pairs of a head that turn with each coordinate of a position
RIGHT, WRONG = 0.8, 0.9  # the two votes: right twice beats wrong once, and wrong beats right
ASTRAY = (3, 5)  # steps too far that either vote alone prefers


@dataclass(frozen=True)
class Qwen35Target:
    """A qwen35 model.

    push: scale of what the trunk's random layers add to a row. swaps: pairs of
    tokens whose successors are exchanged. prediction: whether it has an MTP
    block. draft_push: as push, of that block's attention.
    """

    name: str
    walk: Walk
    push: float = 0.07
    swaps: int = 40
    prediction: bool = True
    draft_push: float = 0.5

    def write(self, folder: Path) -> Path:
        """Write the file below `folder`."""
        sizes = Sizes(TRUNK + self.prediction, INNER, HEADS, HEAD, KV_HEADS)
        file = File(folder / f"{self.name}.gguf", "qwen35", self.walk, sizes)
        file.writer.add_array("qwen35.rope.dimension_sections", list(SECTIONS))
        for key, value in (
            ("ssm.conv_kernel", CONV),
            ("ssm.state_size", STATE),
            ("ssm.group_count", GROUPS),
            ("ssm.time_step_rank", RANK),
            ("ssm.inner_size", STATE * RANK),
            ("full_attention_interval", INTERVAL),
        ):
            file.number(key, value)
        file.weight("token_embd", self.walk.embedding)
        file.ones(self.walk.width, "output_norm")
        file.weight("output", self.walk.head(self.swaps))
        blocks = _Blocks(file, self.walk.width)
        for block in range(TRUNK):
            if (block + 1) % INTERVAL:
                blocks.delta_net(block, self.push)
            else:
                blocks.attention(block, self.push)
            blocks.feed_forward(block, self.push)
        if self.prediction:
            file.number("nextn_predict_layers", 1)
            blocks.attention(TRUNK, self.draft_push)
            blocks.feed_forward(TRUNK, 0.0)
            self._predict(file, f"blk.{TRUNK}.nextn")
        return file.finish()

    def _predict(self, file: File, block: str) -> None:
        width = self.walk.width
        of_token, of_state = _vote(self.walk, 0, ASTRAY[0]), _vote(self.walk, 1, ASTRAY[1])
        file.weight(f"{block}.eh_proj", np.hstack([of_token, of_state]))
        file.ones(width, f"{block}.enorm", f"{block}.hnorm", f"{block}.shared_head_norm")


@dataclass(frozen=True)
class NativeTable:
    """The table that reduces the head of a target's prediction block to `rows` tokens.

    Its order is not that of the ids: a row that is taken for a token shows.
    """

    name: str
    walk: Walk
    rows: int

    def write(self, folder: Path) -> Path:
        """Write the file below `folder`."""
        path = folder / f"{self.name}.gguf"
        writer = gguf.GGUFWriter(path, NATIVE_TABLE)
        writer.add_tensor(TABLE, np.ascontiguousarray(self.walk.frequent(self.rows)[::-1]))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def _vote(walk: Walk, steps: int, astray: int) -> Matrix:
    """Matrix [width, width]: a phase `steps` further, and louder the one `astray` too far."""
    out = RIGHT * walk.turn(steps) + WRONG * walk.turn(steps + astray)
    out[TOKEN, TOKEN] = RIGHT
    return out


class _Blocks:
    """Random blocks; one stream of numbers, so the order of the calls is part of the recipe."""

    def __init__(self, file: File, width: int) -> None:
        self._file = file
        self._width = width
        self._rng = np.random.default_rng(21)

    def attention(self, block: int, push: float) -> None:
        self._norms(block)
        self._random(f"blk.{block}.attn_q", 2 * HEADS * HEAD, self._width)  # query and gate
        self._random(f"blk.{block}.attn_k", KV_HEADS * HEAD, self._width)
        self._random(f"blk.{block}.attn_v", KV_HEADS * HEAD, self._width)
        self._random(f"blk.{block}.attn_output", self._width, HEADS * HEAD, push)
        self._file.ones(HEAD, f"blk.{block}.attn_q_norm", f"blk.{block}.attn_k_norm")

    def delta_net(self, block: int, push: float) -> None:
        self._norms(block)
        values = STATE * RANK
        mixed = 2 * STATE * GROUPS + values
        self._random(f"blk.{block}.attn_qkv", mixed, self._width)
        self._random(f"blk.{block}.attn_gate", values, self._width)
        self._random(f"blk.{block}.ssm_conv1d", mixed, CONV, 0.5 * CONV**0.5)
        self._random(f"blk.{block}.ssm_beta", RANK, self._width)
        self._random(f"blk.{block}.ssm_alpha", RANK, self._width)
        self._random(f"blk.{block}.ssm_out", self._width, values, push * values**0.5)
        self._file.ones(STATE, f"blk.{block}.ssm_norm")
        decay = np.exp(0.3 * self._rng.standard_normal(RANK))
        self._file.tensor(f"blk.{block}.ssm_a", -decay)
        self._file.tensor(f"blk.{block}.ssm_dt.bias", 0.1 * self._rng.standard_normal(RANK))

    def feed_forward(self, block: int, push: float) -> None:
        self._random(f"blk.{block}.ffn_gate", INNER, self._width)
        self._random(f"blk.{block}.ffn_up", INNER, self._width)
        self._random(f"blk.{block}.ffn_down", self._width, INNER, push * INNER**0.5)

    def _norms(self, block: int) -> None:
        self._file.ones(self._width, f"blk.{block}.attn_norm", f"blk.{block}.post_attention_norm")

    def _random(self, name: str, rows: int, columns: int, scale: float = 1.0) -> None:
        """A matrix that keeps a row's size times `scale`."""
        values = self._rng.standard_normal((rows, columns)) * scale / columns**0.5
        self._file.weight(name, values)


WIDE = Walk(vocabulary=9216)
RECIPES = (
    Qwen35Target("qwen35", Walk()),
    Qwen35Target("qwen35-wide", WIDE, push=0.05, swaps=800),
    Qwen35Target("qwen35-no-mtp", Walk(), prediction=False),
)
"""`qwen35-wide`: enough tokens for a reduced head of 8,192 rows."""


def build(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Write every model below `folder`: recipe name -> its file. The same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    return {recipe.name: (recipe.write(folder),) for recipe in RECIPES}
