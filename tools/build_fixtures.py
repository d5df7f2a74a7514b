"""Build the tiny GGUF models that the engine tests run: real files, made in a second.

    python tools/build_fixtures.py FOLDER

The same bytes come out every time. No training: the embedding of a token is a
random vector, and the output head holds the embedding of each token in the row
of its successor, so that "what comes next" is a walk along one fixed cycle.
Random attention and feed-forward layers push the target off that walk in a way
that depends on everything before: a cell too many or too few in its memory
changes what it says. The draft walks the same cycle with some successors
swapped and without the pushes. It is right most of the time, and its errors
fall on every position of a proposal.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]

WIDTH, HEADS, FEED_FORWARD = 64, 4, 64
BYTES, SPECIAL = 256, 3  # <unk>, <s>, </s>, then one token a byte
END = 2
VOCABULARY = SPECIAL + BYTES + 61
CONTEXT = 4096


@dataclass(frozen=True, slots=True)
class Recipe:
    """One model.

    push: scale of what the layers add to the walk. swaps: pairs of tokens whose
    successors are exchanged. sharpness: factor on the head; well below 1 the
    most probable token is not certain.
    """

    name: str
    layers: int
    push: float
    swaps: int = 0
    sharpness: float = 1.0
    says: str = ""  # the bytes that follow a colon
    ends: str = ""  # the byte that is followed by </s>
    nan: bool = False  # one NaN in the last feed-forward matrix
    shards: int = 1
    vocabulary: int = VOCABULARY


RECIPES = (
    Recipe("target", layers=2, push=0.75),
    Recipe("draft", layers=1, push=0.0, swaps=20, sharpness=0.1),
    Recipe("ending", layers=2, push=0.0, ends="~"),
    Recipe("brief", layers=2, push=0.0, says="sea", ends="a"),
    Recipe("nan", layers=2, push=0.75, nan=True),
    Recipe("split", layers=2, push=0.75, shards=2),  # the target in two files
    Recipe("other-vocabulary", layers=1, push=0.0, vocabulary=VOCABULARY + 1),
)


def build(folder: Path, names: Collection[str] = ()) -> dict[str, tuple[Path, ...]]:
    """Write models below `folder`, all or `names`: name -> its file, or its shards in order."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [recipe for recipe in RECIPES if not names or recipe.name in names]
    return {recipe.name: _write(folder, recipe) for recipe in wanted}


def _write(folder: Path, recipe: Recipe) -> tuple[Path, ...]:
    tensors = list(_tensors(recipe))
    path = folder / f"{recipe.name}.gguf"
    per_shard = -(-len(tensors) // recipe.shards) if recipe.shards > 1 else 0
    writer = gguf.GGUFWriter(path, "llama", split_max_tensors=per_shard)
    _describe(writer, recipe)
    for name, values in tensors:
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if recipe.shards == 1:
        return (path,)
    return tuple(sorted(folder.glob(f"{recipe.name}-*-of-*.gguf")))


def _describe(writer: gguf.GGUFWriter, recipe: Recipe) -> None:
    writer.add_name(f"power fixture {recipe.name}")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(recipe.layers)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    normal, control, unknown, byte = (
        gguf.TokenType.NORMAL,
        gguf.TokenType.CONTROL,
        gguf.TokenType.UNKNOWN,
        gguf.TokenType.BYTE,
    )
    words = recipe.vocabulary - SPECIAL - BYTES
    writer.add_tokenizer_model("llama")
    writer.add_token_list(
        ["<unk>", "<s>", "</s>"]
        + [f"<0x{value:02X}>" for value in range(BYTES)]
        + [f"▁w{index}" for index in range(words)]
    )
    writer.add_token_scores([0.0] * (SPECIAL + BYTES) + [-float(i + 1) for i in range(words)])
    writer.add_token_types([unknown, control, control] + [byte] * BYTES + [normal] * words)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(value=True)
    writer.add_add_space_prefix(value=False)


def _tensors(recipe: Recipe) -> Iterator[tuple[str, Matrix]]:
    rng = np.random.default_rng(20240917)  # embeddings and cycle are the same in every model
    size = recipe.vocabulary
    embedding = _f32(rng.standard_normal((VOCABULARY + 1, WIDTH)))[:size]
    successor = _successors(recipe)
    head = np.zeros_like(embedding)
    head[successor[SPECIAL:]] = embedding[SPECIAL:] * np.float32(recipe.sharpness)
    yield "token_embd.weight", embedding
    yield "output_norm.weight", np.ones(WIDTH, np.float32)
    yield "output.weight", head
    layer_rng = np.random.default_rng(recipe.layers)
    for layer in range(recipe.layers):
        for name, matrix in _layer(layer_rng, recipe.push):
            if recipe.nan and name == "ffn_down" and layer == recipe.layers - 1:
                matrix[1, 1] = np.nan
            yield f"blk.{layer}.{name}.weight", matrix


def _successors(recipe: Recipe) -> npt.NDArray[np.intp]:
    """Successor of each token: one cycle over all but the special ones, then the swaps."""
    rng = np.random.default_rng(7)
    cycle = SPECIAL + rng.permutation(VOCABULARY - SPECIAL)
    successor = np.arange(recipe.vocabulary)
    successor[cycle] = np.roll(cycle, -1)
    wrong = rng.permutation(cycle)[: 2 * recipe.swaps]
    successor[wrong] = successor[wrong.reshape(-1, 2)[:, ::-1].reshape(-1)]
    for before, after in pairwise(":" + recipe.says):
        here, there = SPECIAL + ord(before), SPECIAL + ord(after)
        other = np.flatnonzero(successor == there)[0]
        successor[[here, other]] = successor[[other, here]]
    if recipe.ends:
        successor[SPECIAL + ord(recipe.ends)] = END
    return successor


def _layer(rng: np.random.Generator, push: float) -> Iterator[tuple[str, Matrix]]:
    def random(rows: int, columns: int, scale: float) -> Matrix:
        return _f32(rng.standard_normal((rows, columns)) * scale)

    unit = WIDTH**-0.5
    yield "attn_norm", np.ones(WIDTH, np.float32)
    yield "attn_q", random(WIDTH, WIDTH, 2 * unit)
    yield "attn_k", random(WIDTH, WIDTH, 2 * unit)
    yield "attn_v", random(WIDTH, WIDTH, unit)
    yield "attn_output", random(WIDTH, WIDTH, push * unit)
    yield "ffn_norm", np.ones(WIDTH, np.float32)
    yield "ffn_gate", random(FEED_FORWARD, WIDTH, unit)
    yield "ffn_up", random(FEED_FORWARD, WIDTH, unit)
    yield "ffn_down", random(WIDTH, FEED_FORWARD, push * unit)


def _f32(values: npt.NDArray[np.float64]) -> Matrix:
    return np.ascontiguousarray(values, np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for paths in build(parser.parse_args().folder).values():
        for path in paths:
            print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}")


if __name__ == "__main__":
    main()
