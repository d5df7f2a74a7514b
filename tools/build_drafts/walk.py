"""The language that all draft fixtures speak: a walk along one cycle of tokens.

Each token of the cycle is a phase: its embedding holds cosines and sines of
that phase at several frequencies, so that stepping along the cycle is a
rotation, a matrix. A draft head can be *constructed* to step, instead of
trained, and whatever it reads at the wrong place is a wrong phase: it shows as
rejected tokens.

Coordinates of a hidden row: 0 is set in every token but the mask, 1 in the mask
alone, 2 in a row of target features inside a draft, 3 in a row that looked at
one; 8 and up are the phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]

TOKEN, MASKED, FEATURE, LOOKED = 0, 1, 2, 3
FAINT = 0.02  # length of the mask's embedding: what a slot is told outweighs what it was
PHASE = 8  # first coordinate of the phase
BYTES = 256
SPECIAL = 3  # <unk>, <s>, </s>: outside the cycle, never the most probable token
STEP = 7  # what comes next is so many tokens further along the cycle
CONTEXT = 2048
EPSILON = 1e-6
SHARPNESS = 0.15  # of a draft head: well below 1 its most probable token is not certain


@dataclass(frozen=True)
class Walk:
    """The cycle: `vocabulary` tokens, the last one the mask, embedded in `width` numbers."""

    width: int = 64
    vocabulary: int = 320

    @property
    def mask(self) -> int:
        """Id of the mask token."""
        return self.vocabulary - 1

    @property
    def length(self) -> int:
        """Tokens on the cycle."""
        return self.vocabulary - SPECIAL - 1

    @cached_property
    def frequencies(self) -> npt.NDArray[np.intp]:
        """One a pair of phase coordinates, all different."""
        pairs = (self.width - PHASE) // 2
        rng = np.random.default_rng(1)
        return np.sort(rng.choice(np.arange(1, self.length // 2), pairs, replace=False))

    @cached_property
    def embedding(self) -> Matrix:
        """float32 [vocabulary, width]; every row but the mask's has the same length."""
        out = np.zeros((self.vocabulary, self.width), np.float32)
        index = np.arange(self.vocabulary) - SPECIAL
        angles = 2 * np.pi * index[:, None] * self.frequencies / self.length
        out[:, TOKEN] = 1.0
        out[:, PHASE::2], out[:, PHASE + 1 :: 2] = np.cos(angles), np.sin(angles)
        out[self.mask] = 0.0
        out[self.mask, MASKED] = FAINT
        return out

    @property
    def rms(self) -> float:
        """Root of the mean square of a token's embedding: what an RMS norm divides it by."""
        return float(np.sqrt((len(self.frequencies) + 1.0) / self.width))

    def turn(self, steps: int) -> Matrix:
        """Matrix [width, width]: the phase `steps` steps further along; other coordinates go."""
        out = np.zeros((self.width, self.width), np.float32)
        angles = 2 * np.pi * self.frequencies * steps * STEP / self.length
        at = np.arange(PHASE, self.width, 2)
        out[at, at] = out[at + 1, at + 1] = np.cos(angles)
        out[at, at + 1], out[at + 1, at] = -np.sin(angles), np.sin(angles)
        return out

    def head(self, swaps: int = 0) -> Matrix:
        """Output matrix [vocabulary, width] that reads the phase of a token and says the next one.

        swaps: pairs of successors exchanged, at places that are always the same.
        """
        index = np.arange(self.length)
        successor = SPECIAL + (index + STEP) % self.length
        rng = np.random.default_rng(5)
        pairs = rng.permutation(index)[: 2 * swaps].reshape(-1, 2)
        successor[pairs] = successor[pairs[:, ::-1]]
        out = np.zeros((self.vocabulary, self.width), np.float32)
        out[successor, PHASE:] = self.embedding[SPECIAL + index, PHASE:]
        return out

    def frequent(self, rows: int) -> npt.NDArray[np.int64]:
        """Ids of a reduced vocabulary, ascending: `rows` of them, <unk> among them."""
        rng = np.random.default_rng(3)
        chosen = SPECIAL + rng.permutation(self.length)[: rows - 1]
        return np.sort(np.append(chosen, 0)).astype(np.int64)

    def describe(self, writer: gguf.GGUFWriter) -> None:
        """Write the tokenizer: bytes, words and the mask."""
        words = self.vocabulary - SPECIAL - BYTES - 1
        names = ["<unk>", "<s>", "</s>"]
        names += [f"<0x{value:02X}>" for value in range(BYTES)]
        names += [f"▁w{index}" for index in range(words)]
        control, byte, normal = (
            gguf.TokenType.CONTROL,
            gguf.TokenType.BYTE,
            gguf.TokenType.NORMAL,
        )
        types = [gguf.TokenType.UNKNOWN, control, control] + [byte] * BYTES + [normal] * words
        scores = [0.0] * (SPECIAL + BYTES) + [-float(index + 1) for index in range(words)]
        writer.add_tokenizer_model("llama")
        writer.add_token_list([*names, "<mask>"])
        writer.add_token_scores([*scores, 0.0])
        writer.add_token_types([*types, control])
        writer.add_unk_token_id(0)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_bos_token(value=False)
        writer.add_add_space_prefix(value=False)
        writer.add_uint32("tokenizer.ggml.mask_token_id", self.mask)


@dataclass(frozen=True)
class NarrowWalk(Walk):
    """The cycle of `source` in fewer numbers: the first of its frequencies, which tell all."""

    source: Walk = field(default_factory=Walk)

    @cached_property
    def frequencies(self) -> npt.NDArray[np.intp]:
        """One a pair of phase coordinates, those of `source`."""
        return self.source.frequencies[: (self.width - PHASE) // 2]

    def taken_in(self) -> Matrix:
        """Matrix [width, width of `source`]: the phase of a row of `source`, as `turn(0)` is."""
        out = np.zeros((self.width, self.source.width), np.float32)
        at = np.arange(PHASE, self.width)
        out[at, at] = 1.0
        return out


@dataclass(frozen=True)
class Sizes:
    """Hyperparameters that every architecture has. `head`: length of a key and of a value."""

    blocks: int
    feed_forward: int
    heads: int
    head: int
    kv_heads: int | None = None


class File:
    """One GGUF while it is written: name first, then keys, then tensors, then `finish`."""

    def __init__(self, path: Path, architecture: str, walk: Walk, sizes: Sizes) -> None:
        self.path = path
        self.prefix = architecture
        self.writer = gguf.GGUFWriter(path, architecture)
        writer = self.writer
        writer.add_name(f"power fixture {path.stem}")
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(walk.width)
        writer.add_block_count(sizes.blocks)
        writer.add_feed_forward_length(sizes.feed_forward)
        writer.add_head_count(sizes.heads)
        writer.add_head_count_kv(sizes.kv_heads or sizes.heads)
        writer.add_key_length(sizes.head)
        writer.add_value_length(sizes.head)
        writer.add_layer_norm_rms_eps(EPSILON)
        writer.add_rope_freq_base(10000.0)
        writer.add_rope_dimension_count(sizes.head)
        writer.add_file_type(gguf.LlamaFileType.ALL_F32)
        walk.describe(writer)

    def number(self, key: str, value: int) -> None:
        """An unsigned key of the architecture."""
        self.writer.add_uint32(f"{self.prefix}.{key}", value)

    def flag(self, key: str, *, value: bool) -> None:
        """A boolean key of the architecture."""
        self.writer.add_bool(f"{self.prefix}.{key}", value)

    def layers(self, numbers: Sequence[int]) -> None:
        """The target's layers that a draft reads the inputs of."""
        self.writer.add_array(f"{self.prefix}.target_layers", list(numbers))

    def weight(self, name: str, values: npt.ArrayLike) -> None:
        """A float tensor `name`.weight; numpy's shape is ggml's reversed."""
        self.tensor(f"{name}.weight", values)

    def tensor(self, name: str, values: npt.ArrayLike) -> None:
        """A float tensor under its exact name."""
        self.writer.add_tensor(name, np.ascontiguousarray(values, np.float32))

    def ids(self, ids: npt.NDArray[np.int64]) -> None:
        """The `d2t` map: token id of each row of a reduced head."""
        self.writer.add_tensor("d2t", ids)

    def ones(self, length: int, *names: str) -> None:
        """Norms that change nothing."""
        for name in names:
            self.weight(name, np.ones(length))

    def idle_feed_forward(self, block: int, width: int, inner: int) -> None:
        """A feed-forward network that adds nothing."""
        self.ones(width, f"blk.{block}.ffn_norm")
        self.weight(f"blk.{block}.ffn_gate", np.zeros((inner, width)))
        self.weight(f"blk.{block}.ffn_up", np.zeros((inner, width)))
        self.weight(f"blk.{block}.ffn_down", np.zeros((width, inner)))

    def finish(self) -> Path:
        """Write everything out."""
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        return self.path
