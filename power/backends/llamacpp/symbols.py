"""Which of the library's experimental functions a build exports, told without loading it.

`llama-ext.h` declares them with C++ linkage and calls them work in progress:
they have no C name and no binding, and a build may lack any of them.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path

SYMBOLS: Mapping[str, str] = {
    "set_embeddings_nextn": "_Z26llama_set_embeddings_nextnP13llama_contextbb",
    "get_embeddings_nextn": "_Z26llama_get_embeddings_nextnP13llama_context",
    "set_embeddings_layer_inp": "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
    "get_embeddings_layer_inp": "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
    "model_target_layer_ids": "_Z28llama_model_target_layer_idsPK11llama_model",
    "model_target_layer_ids_n": "_Z30llama_model_target_layer_ids_nPK11llama_model",
    "model_dflash_selector_top_k": "_Z33llama_model_dflash_selector_top_kPK11llama_model",
}
"""Function of `llama-ext.h` without its `llama_` -> its name in the library (Itanium C++ ABI)."""

NEXTN = ("set_embeddings_nextn", "get_embeddings_nextn")
"""What reads the hidden state behind a model's last layer."""

LAYER_INPUTS = ("set_embeddings_layer_inp", "get_embeddings_layer_inp")
"""What reads the input of a layer of the target."""

TARGET_LAYERS = ("model_target_layer_ids", "model_target_layer_ids_n")
"""Which layers of the target a draft wants to read."""

SELECTOR = ("model_dflash_selector_top_k",)
"""How many candidates a DFlash2 draft offers for a position."""


def exported(library: Path) -> frozenset[str]:
    """The keys of `SYMBOLS` whose names stand in `library`; none when it cannot be read.

    A name in the file is not proof of a function, but its absence is proof of
    none; `extensions.extension` has the last word when the library is mapped.
    """
    try:
        with (
            library.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return frozenset(
                name for name, symbol in SYMBOLS.items() if data.find(symbol.encode() + b"\0") >= 0
            )
    except (OSError, ValueError):  # ValueError: an empty file cannot be mapped
        return frozenset()
