"""DFlash, DFlash2 and DSpark heads that are right only when everything is done right.

How a slot knows its token: the rows of target features carry a key whose
rotary score peaks at one distance a head. Slot d of a block looks d + 1 rows
back with head d, at the last row of features, and turns that phase d steps
further. Masks have a key of their own with a score between "at the distance"
and "one off": a head that finds no features at its distance looks at them, and
they have no phase. So without features nothing is proposed right, and with
features of a wrong row everything is one step off.

DSpark and DFlash2 get two votes. The block alone prefers a wrong token and the
Markov head (the selector) alone another one; together they agree on the right
one. Neither can be left out or misread unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from tools.build_drafts.walk import (
    FEATURE,
    LOOKED,
    MASKED,
    PHASE,
    SHARPNESS,
    TOKEN,
    File,
    Matrix,
    Sizes,
    Walk,
)

Kind = Literal["dflash", "dflash2", "dspark"]

INNER = 16
QUERY_GAIN = 20.0  # norm weight of queries: attention is all or nothing
DAMPING = 0.45  # weight of the head that looks one row further back: the nearest one decides
RIGHT, WRONG = 0.8, 1.0  # the two votes: right twice beats wrong once
KERNEL, GROUP = 3, 16
AXES = 4  # coordinates of a position, where it has several
GATE = 1.0  # weight of the pairs' votes of DFlash2
CONFIDENT, OF_TOKEN = 1.5, 2.0  # of the confidence head: bias, weight of one coordinate


@dataclass(frozen=True)
class BlockDraft:
    """A head for the targets of `walk`.

    own: has embedding and output head of its own, else they are the target's.
    rows: size of a reduced head with its `d2t` map, which is the draft's own.
    block: rows of a block. from_anchor: DSpark proposes from the anchor's slot on.
    confidence: DSpark has a confidence head; it goes by the token before (`sure`).
    sections: rotary sections as in drafts for targets with positions of several
    coordinates, here so that a slot finds its row only where all four are right.
    """

    name: str
    kind: Kind
    walk: Walk
    block: int = 8
    layers: tuple[int, ...] = (1, 3)
    own: bool = False
    rows: int | None = None
    from_anchor: bool = True
    confidence: bool = True
    sections: bool = False

    def sure(self, before: int) -> float:
        """What the confidence head says of a row behind the token `before`: above 0, below 1."""
        seen = float(self.walk.embedding[before, PHASE])
        return float(1.0 / (1.0 + np.exp(-CONFIDENT - OF_TOKEN * seen)))

    def write(self, folder: Path) -> Path:
        """Write the file below `folder`."""
        walk, heads = self.walk, self.block + self._anchored
        sizes = Sizes(1, INNER, heads, walk.width)
        file = File(folder / f"{self.name}.gguf", "dflash", walk, sizes)
        self._describe(file)
        self._backbone(file)
        if self.own:
            file.weight("token_embd", walk.embedding)
        if self.rows is not None:
            file.ids(walk.frequent(self.rows))
            file.weight("output", walk.head()[walk.frequent(self.rows)])
        elif self.own:
            file.weight("output", walk.head())
        if self.kind == "dspark":
            self._markov(file)
        if self.kind == "dflash2":
            self._selector(file)
        return file.finish()

    @property
    def _anchored(self) -> bool:
        return self.kind == "dspark" and self.from_anchor

    @property
    def _comb(self) -> _Comb:
        return (_CombOfAxes if self.sections else _Comb)(self.walk.width)

    @property
    def _top_k(self) -> int:
        """The widest lattice that fits a row: k candidates and k * k scores."""
        return int((self.walk.width + 0.25) ** 0.5 - 0.5)

    def _describe(self, file: File) -> None:
        file.number("block_size", self.block)
        file.layers(self.layers)
        if self.sections:
            file.writer.add_array("dflash.rope.dimension_sections", [1] * AXES)  # and over again
        if self.kind == "dspark":
            file.flag("sample_from_anchor", value=self.from_anchor)
            file.flag("has_confidence_head", value=self.confidence)
        if self.kind == "dflash2":
            file.number("conv_kernel_size", KERNEL)
            file.number("conv_group_size", GROUP)
            file.number("selector_rank", self.walk.width)
            file.number("selector_top_k", self._top_k)

    def _backbone(self, file: File) -> None:
        width, count = self.walk.width, len(self.layers)
        fused = np.zeros((width, width))
        fused[FEATURE, TOKEN] = 1.0
        phase = self.walk.turn(0)
        file.weight("fc", np.hstack([(fused + phase) / count] * count))
        file.weight("output_norm", np.full(width, SHARPNESS))
        file.ones(width, "enc.output_norm", "blk.0.attn_norm", "blk.0.attn_k_norm")
        file.weight("blk.0.attn_q_norm", np.full(width, self._comb.gain))
        for name, matrix in self._attention().items():
            file.weight(f"blk.0.{name}", matrix)
        file.idle_feed_forward(0, width, INNER)

    def _attention(self) -> dict[str, Matrix]:
        """Projections of heads 1 to `block` by distance, and of one that looks at its own row."""
        walk, width = self.walk, self.walk.width
        parts: dict[str, list[npt.NDArray[np.floating]]] = {"q": [], "k": [], "v": [], "o": []}
        key = np.zeros((width, width))
        comb = self._comb
        key[:, FEATURE], key[-1, MASKED], key[width // 2 - 2, TOKEN] = comb.key(), 1.0, 1.0
        for distance in range(1, self.block + 1):
            query = np.zeros((width, width))
            query[:, MASKED] = query[:, TOKEN] = comb.query(distance)
            steps = distance - 1 + self._anchored
            parts["q"].append(query)
            parts["o"].append(self._vote(steps) * DAMPING ** (distance - 1))
        if self._anchored:
            # The anchor's own phase would give its slot the right token for free.
            query = np.zeros((width, width))
            query[width // 2 - 2, TOKEN] = query[-1, MASKED] = 1.0
            parts["q"].append(query)
            parts["o"].append(-walk.rms * walk.turn(0))
        value = walk.turn(0)
        value[FEATURE, FEATURE] = 1.0
        parts["k"], parts["v"] = [key] * len(parts["q"]), [value] * len(parts["q"])
        out = {f"attn_{part}": np.vstack(parts[part]).astype(np.float32) for part in "qkv"}
        return out | {"attn_output": np.hstack(parts["o"]).astype(np.float32)}

    def _vote(self, steps: int) -> Matrix:
        """What a slot's attention says about its token, from a phase `steps` before it."""
        if self.kind == "dflash":
            return self.walk.turn(steps)
        right, wrong = self.walk.turn(steps), self.walk.turn(steps + 1)
        vote = np.float32(RIGHT) * right + np.float32(WRONG) * wrong
        vote[LOOKED, FEATURE] = 1.0
        return vote

    def _pairs(self) -> tuple[Matrix, Matrix]:
        """Factors [vocabulary, width]: which token votes for which next one."""
        walk = self.walk
        votes = RIGHT * walk.turn(0) + WRONG * walk.turn(4)
        return walk.embedding, (walk.head() @ votes).astype(np.float32)

    def _markov(self, file: File) -> None:
        first, second = self._pairs()
        rows = slice(None) if self.rows is None else self.walk.frequent(self.rows)
        file.weight("markov_w1", first)
        file.weight("markov_w2", second[rows] * np.float32(SHARPNESS))
        if self.confidence:
            seen = np.zeros((1, 2 * self.walk.width))  # the hidden row, then the token before
            seen[0, self.walk.width + PHASE] = OF_TOKEN
            file.weight("conf_proj", seen)
            file.tensor("conf_proj.bias", np.array([CONFIDENT]))

    def _selector(self, file: File) -> None:
        width = self.walk.width
        previous, following = self._pairs()
        file.weight("selector_predecessor", previous)
        file.weight("selector_successor", following)
        gate = np.zeros((width, width))
        gate[:, LOOKED] = GATE
        file.weight("selector_hidden", gate)
        taps = np.zeros((2, KERNEL, width))
        taps[:, 0] = 1.0  # the row itself: the convolution changes nothing
        for part in ("attn", "ffn"):
            file.tensor(f"blk.0.{part}_conv_base", taps)
            file.weight(f"blk.0.{part}_conv_proj", np.zeros((2 * KERNEL * width // GROUP, width)))


class _Comb:
    """A key whose rotary score falls off with the distance from where it is looked for.

    It fills the first half of the quickly turning pairs; pair i of a rotary
    embedding in NeoX order is coordinates i and i + size / 2.
    """

    gain = QUERY_GAIN

    def __init__(self, size: int) -> None:
        self._size = size
        self._fast = size // 8
        self._angles = 10000.0 ** (-np.arange(self._fast) / (size / 2))
        self._weights = np.ones(self._fast)
        self._nearest = float(np.cos(self._angles).mean())

    def key(self) -> Matrix:
        """One row, float32 [size]."""
        out = np.zeros(self._size, np.float32)
        out[: self._fast] = np.sqrt(self._weights)
        return out / np.float32(np.linalg.norm(out))

    def query(self, distance: int) -> Matrix:
        """What scores the key highest at `distance`, and masks between that and the next best."""
        half, fast, angles = self._size // 2, self._fast, self._angles
        query = np.zeros(self._size)
        query[:fast] = np.cos(distance * angles) * np.sqrt(self._weights)
        query[half : half + fast] = -np.sin(distance * angles) * np.sqrt(self._weights)
        query /= np.linalg.norm(query)
        between = np.arctan((1 + self._nearest) / 2)
        query *= np.cos(between)
        query[-1] = np.sin(between)  # the slowest pair: the same at any distance
        return query.astype(np.float32)


class _CombOfAxes(_Comb):
    """The same where pair i turns with coordinate i % 4 of a position.

    All four coordinates weigh alike: the key is lost when a single one is one
    off. The fourth is 0 in a text, so that its pairs do not turn.
    """

    gain = 80 * QUERY_GAIN  # what is lost has no weight at all: the last norm would amplify it

    def __init__(self, size: int) -> None:
        super().__init__(size)
        axes = np.arange(self._fast) % AXES
        lost = 1 - np.cos(self._angles)  # by a pair whose coordinate is one off
        self._weights = 1 / np.array([lost[axes == axis].sum() for axis in range(AXES)])[axes]
        self._angles[axes == AXES - 1] = 0.0
        self._nearest = 1 - 1 / float(self._weights.sum())
