"""The experimental functions of `llama-ext.h`, resolved by their C++ names."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

from power.backends.llamacpp.library import native
from power.backends.llamacpp.symbols import SYMBOLS
from power.diagnostics import fail

_POINTER, _FLOATS = ctypes.c_void_p, ctypes.POINTER(ctypes.c_float)
_BOOL, _INT, _UINT = ctypes.c_bool, ctypes.c_int32, ctypes.c_uint32

# Arguments and result of each. Without a declared result ctypes cuts a pointer to an int.
_SIGNATURES: Mapping[str, tuple[list[Any], Any]] = {
    "set_embeddings_nextn": ([_POINTER, _BOOL, _BOOL], None),
    "get_embeddings_nextn": ([_POINTER], _FLOATS),
    "set_embeddings_layer_inp": ([_POINTER, _UINT, _BOOL], None),
    "get_embeddings_layer_inp": ([_POINTER, _UINT], _FLOATS),
    "model_target_layer_ids": ([_POINTER], ctypes.POINTER(_INT)),
    "model_target_layer_ids_n": ([_POINTER], _UINT),
    "model_dflash_selector_top_k": ([_POINTER], _INT),
}


@cache
def extension(name: str) -> Any:
    """The function `llama_<name>` of the mapped library, a key of `symbols.SYMBOLS`.

    Raises PowerError P530 when the library does not export it.
    """
    function = getattr(native()._lib, SYMBOLS[name], None)  # noqa: SLF001 - its one handle
    if function is None:
        fail(
            "P530",
            f"the native library has no function `llama_{name}`",
            expected=SYMBOLS[name],
            hint="install the engine package again, or choose a `spec_mode` that `power doctor` "
            "says it runs",
        )
    function.argtypes, function.restype = _SIGNATURES[name]
    return function
