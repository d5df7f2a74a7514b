"""How much an engine keeps in memory of what a model has read, from header facts.

Source: llama.cpp, src/llama-kv-cache.cpp and src/llama-memory-recurrent.cpp, with
`n_embd_r` and `n_embd_s` of src/llama-hparams.cpp. Keys and values are float16,
recurrent states float32.
"""

from __future__ import annotations

from dataclasses import dataclass

from power.artifact.architectures import RECURRENT
from power.artifact.dimensions import Dimensions, read_dimensions
from power.artifact.findings import Findings
from power.artifact.header import Header
from power.artifact.layouts import recurrent_blocks
from power.artifact.reader import Reader

_F16, _F32 = 2, 4
_DELTA_NET = frozenset({"qwen35", "qwen35moe"})
_LATENT = "attention.kv_lora_rank"  # caches that hold something else than keys and values


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of memory that one context of a model takes.

    cell: keys and values of one token, over all layers of the trunk with attention.
    prediction_cell: the same of its native prediction blocks, which have a
        context of their own.
    state: one recurrent state; the context holds one, and one more a snapshot. 0
        for a model without.
    """

    cell: int
    prediction_cell: int = 0
    state: int = 0


def footprint(header: Header) -> Footprint | None:
    """The footprint of the model in `header`, which has to be checked; None when it is unknown.

    Unknown: recurrent architectures other than Qwen3.5 and caches of latent
    attention, whose layouts are their own.
    """
    architecture = header.text("general.architecture") or ""
    reader = Reader(header, Findings())
    d = read_dimensions(reader, architecture)
    known = architecture not in RECURRENT or architecture in _DELTA_NET
    if d is None or not known or f"{architecture}.{_LATENT}" in header.values:
        return None
    trunk = d.layers - d.nextn
    recurrent = recurrent_blocks(reader, d, trunk) if architecture in _DELTA_NET else set()
    cells = [_cell(d, layer) for layer in range(d.layers)]
    return Footprint(
        cell=sum(cells[layer] for layer in range(trunk) if layer not in recurrent),
        prediction_cell=sum(cells[trunk:]),
        state=len(recurrent) * _state(header, architecture),
    )


def _cell(d: Dimensions, layer: int) -> int:
    heads = d.kv_heads
    count = heads[layer] if isinstance(heads, list) else heads
    return (count or 0) * (d.key_length + d.value_length) * _F16


def _state(header: Header, architecture: str) -> int:
    """One layer's state: the window of the convolution and the matrix of the delta rule."""
    kernel, inner, groups, size = (
        header.integer(f"{architecture}.ssm.{name}") or 0
        for name in ("conv_kernel", "inner_size", "group_count", "state_size")
    )
    window = max(0, kernel - 1) * (inner + 2 * groups * size)
    return (window + size * inner) * _F32
