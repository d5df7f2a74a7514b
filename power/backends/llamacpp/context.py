"""One `llama_context`: evaluates tokens, shows rows of logits, forgets suffixes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from power.backends.errors import EngineError
from power.backends.llamacpp.batch import Batch
from power.backends.llamacpp.library import LOG, native
from power.backends.llamacpp.model import Model

Row = npt.NDArray[np.float32]

_FLASH_OFF, _FLASH_ON = 0, 1
_SEQUENCE = 0
_NO_SLOT, _ABORTED = 1, 2


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """Shape and placement of a context.

    cells: token positions it has to hold. batch: most tokens of one decode.
    rows: most rows with logits of one decode.
    """

    cells: int
    batch: int
    rows: int
    threads: int
    flash_attention: bool = True
    offload: bool = True


def default_threads() -> int:
    """Physical cores that this process may use: a second thread of a core only adds waiting."""
    allowed = len(os.sched_getaffinity(0))
    return max(1, min(psutil.cpu_count(logical=False) or allowed, allowed))


class Context:
    """Owns one context of `model` with one sequence. Close it before the model.

    Raises EngineError, kind `context` or `memory`, when the library makes none.
    """

    def __init__(self, model: Model, config: ContextConfig) -> None:
        lib = native()
        params = lib.llama_context_default_params()
        params.n_ctx = config.cells
        params.n_batch = params.n_ubatch = config.batch
        params.n_seq_max = 1
        params.n_outputs_max = params.n_outputs_max_per_seq = config.rows
        params.n_threads = params.n_threads_batch = config.threads
        params.flash_attn_type = _FLASH_ON if config.flash_attention else _FLASH_OFF
        params.offload_kqv = params.op_offload = config.offload
        params.no_perf = True
        LOG.clear()
        self._handle: Any = lib.llama_init_from_model(model.handle, params)
        if not self._handle:
            raise _context_error(config)
        self._memory = lib.llama_get_memory(self._handle)
        self._batch = Batch(config.batch)
        self._rows_max = config.rows
        self._vocabulary_size = model.vocabulary_size
        self._view: Row = np.empty((0, model.vocabulary_size), np.float32)
        self._view_address = 0
        self.batch_size = config.batch
        self.cells: int = lib.llama_n_ctx(self._handle)
        if self.cells < config.cells:
            self.close()
            raise EngineError(
                "context",
                f"the engine made a context of {self.cells} cells, {config.cells} were asked",
                LOG.problems(),
            )

    def decode(self, tokens: Sequence[int], position: int, outputs: int) -> Row:
        """Evaluate `tokens` at `position` and return the logits of the last `outputs` rows.

        The result, float32 [outputs, vocabulary], is the library's own memory:
        valid until the next decode, not to be written. Raises EngineError
        `decode` when the library reports anything but success.
        """
        if outputs > self._rows_max:
            msg = f"{outputs} rows of logits, room for {self._rows_max}"
            raise ValueError(msg)
        lib = native()
        code = lib.llama_decode(self._handle, self._batch.fill(tokens, position, outputs))
        if code != 0:
            raise _decode_error(code, len(tokens), position)
        if not outputs:
            lib.llama_synchronize(self._handle)
            return self._view[:0]
        return self._logits(lib)[:outputs]

    def _logits(self, lib: Any) -> Row:
        """All rows of the library's buffer, which it may move between decodes."""
        pointer = lib.llama_get_logits(self._handle)  # waits for the device
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        if not address:
            raise EngineError("decode", "the engine gave no logits", LOG.problems())
        if address != self._view_address:
            shape = (self._rows_max, self._vocabulary_size)
            self._view = np.ctypeslib.as_array(pointer, shape=shape)
            self._view_address = address
        return self._view

    def trim(self, cells: int) -> bool:
        """Forget every position from `cells` on; the library's word for it.

        Its word is not enough: ask `filled` what is really there.
        """
        return bool(native().llama_memory_seq_rm(self._memory, _SEQUENCE, cells, -1))

    def filled(self) -> int:
        """Positions in memory, counted by the library."""
        return int(native().llama_memory_seq_pos_max(self._memory, _SEQUENCE)) + 1

    def clear(self) -> None:
        """Forget everything."""
        # With True the buffers are zeroed too: a request must not depend on the one before.
        native().llama_memory_clear(self._memory, True)  # noqa: FBT003 - positional in C

    def close(self) -> None:
        """Free the context; safe to call again. Views of its rows are invalid afterwards."""
        handle, self._handle = self._handle, None
        if handle:
            native().llama_free(handle)

    @property
    def handle(self) -> Any:
        """The `llama_context *`."""
        return self._handle


def _context_error(config: ContextConfig) -> EngineError:
    if LOG.out_of_memory():
        message = f"there is not enough memory for a context of {config.cells} tokens"
        return EngineError("memory", message, LOG.problems())
    return EngineError("context", "the engine could not make a context", LOG.problems())


def _decode_error(code: int, count: int, position: int) -> EngineError:
    where = f"{count} tokens at position {position}"
    if code == _NO_SLOT:
        message = f"the context has no room for {where}"
    elif code == _ABORTED:
        message = f"the evaluation of {where} was aborted"
    else:
        message = f"the evaluation of {where} failed with code {code}"
    return EngineError("decode", message, LOG.problems())
