"""One `llama_context`: evaluates rows, shows logits and hidden states, forgets suffixes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from power.backends.errors import EngineError
from power.backends.llamacpp.batch import Batch, Rows
from power.backends.llamacpp.extensions import extension
from power.backends.llamacpp.library import LOG, address, native
from power.backends.llamacpp.model import Model

Row = Rows
State = npt.NDArray[np.uint8]
_FLASH_OFF, _FLASH_ON = 0, 1
_SEQUENCE = 0
_NO_SLOT, _ABORTED = 1, 2
_KINDS = {"target": 0, "mtp": 1}  # llama_context_type
_RECURRENT_PART = 1  # LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
_ROWS_BESIDE_SNAPSHOTS = 2


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """Shape and placement of a context.

    cells: token positions it has to hold. batch: most rows of one decode.
    micro_batch: most rows that the kernels see at once; a larger decode is cut up.
    rows: most rows with logits of one decode. snapshots: rows of the last
    decode that a recurrent state can drop again. kind: `mtp` evaluates the
    model's own draft block instead of the model. other: the context whose
    model lends its embedding and output head to a draft that has none.
    causal: whether a row sees only the rows before it. widths: how wide a row
    of embeddings may be, for a context that takes them.
    """

    cells: int
    batch: int
    rows: int
    threads: int
    micro_batch: int | None = None
    flash_attention: bool = True
    offload: bool = True
    snapshots: int = 0
    kind: Literal["target", "mtp"] = "target"
    other: Context | None = None
    causal: bool = True
    widths: tuple[int, ...] = ()


class Context:
    """Owns one context of `model` with one sequence. Close it before the model.

    Raises EngineError, kind `context` or `memory`, when the library makes none.
    """

    def __init__(self, model: Model, config: ContextConfig) -> None:
        _check(model, config)
        lib = native()
        LOG.clear()
        self._handle: Any = lib.llama_init_from_model(model.handle, _params(lib, config))
        if not self._handle:
            raise _context_error(config)
        self._memory = lib.llama_get_memory(self._handle)
        self._tokens = Batch(config.batch)
        self._embeddings = {
            width: Batch(config.batch, width, model.position_axes) for width in config.widths
        }
        self._llama_decode = lib.llama_decode
        self._logits_of: Callable[[Any], int | None] = address("llama_get_logits")
        self._chooser: Any = None
        self._llama_pos_max = lib.llama_memory_seq_pos_max
        self._shape = (config.rows, model.vocabulary_size)
        self._views: list[Row] = [np.empty((0, model.vocabulary_size), np.float32)]
        self._view_address = 0
        self.recurrent = model.recurrent and config.kind == "target"
        self._mixed = config.kind == "mtp"
        self._width = model.width
        self._evaluated = 0  # rows of the last decode
        self._droppable = 0  # of them, how many a recurrent state can forget now
        self.batch_size = config.batch
        self.cells: int = lib.llama_n_ctx(self._handle)
        self.snapshots: int = lib.llama_n_rs_seq(self._handle)
        if not config.causal:
            lib.llama_set_causal_attn(self._handle, False)  # noqa: FBT003 - positional in C
        if self.cells < config.cells:
            self.close()
            raise EngineError(
                "context",
                f"the engine made a context of {self.cells} cells, {config.cells} were asked",
                LOG.problems(),
            )

    def decode(
        self,
        tokens: Sequence[int] | None,
        position: int,
        outputs: int,
        embeddings: Rows | None = None,
    ) -> Row:
        """Evaluate rows at `position` and return the logits of the last `outputs` of them.

        A row is a token, an embedding (float32 [rows, width], a width of the
        configuration), or both. The result, float32 [outputs, vocabulary], is
        the library's own memory: valid until the next decode, not to be
        written. Raises EngineError `decode` when the library reports anything
        but success.
        """
        if outputs > self._shape[0]:
            msg = f"{outputs} rows of logits, room for {self._shape[0]}"
            raise ValueError(msg)
        if embeddings is None and not self._mixed:
            raw = self._tokens.fill(tokens, position, outputs)
        else:
            raw = self._fill(tokens, position, outputs, embeddings)
        self._evaluated = self._droppable = 0
        code = self._llama_decode(self._handle, raw)
        if code != 0:
            raise _decode_error(code, raw.n_tokens, position)
        self._evaluated = len(tokens) if tokens is not None else raw.n_tokens
        if self.snapshots:
            # They are of this decode alone: asked for more, the library says yes and
            # leaves a wrong state behind.
            self._droppable = min(self.snapshots, self._evaluated - 1)
        if not outputs:
            native().llama_synchronize(self._handle)
            return self._views[0]
        found = self._logits_of(self._handle)  # waits for the device
        if found != self._view_address:
            self._look_at(found)
        return self._views[outputs]

    def encode(self, embeddings: Rows) -> None:
        """Run the encoder on rows of embeddings, float32 [rows, width]; `nextn` has its output.

        The memory is not touched. Raises EngineError `decode`.
        """
        position = self.filled()  # the encoder reads none, but they have to follow the memory's
        raw = self._fill(None, position, len(embeddings), embeddings)
        code = native().llama_encode(self._handle, raw)
        if code != 0:
            raise _decode_error(code, raw.n_tokens, position)
        self._evaluated = raw.n_tokens
        native().llama_synchronize(self._handle)

    def expose_nextn(self, *, masked: bool) -> None:
        """Keep the hidden state behind the last layer of every later row, for `nextn`.

        masked: of the rows with logits only.
        """
        extension("set_embeddings_nextn")(self._handle, True, masked)  # noqa: FBT003 - C

    def expose_layer_input(self, layer: int) -> None:
        """Keep what block `layer` (from 0) takes in, of every later row, for `layer_input`."""
        extension("set_embeddings_layer_inp")(self._handle, layer, True)  # noqa: FBT003 - C

    def nextn(self, rows: int) -> Row:
        """Hidden states of the first `rows` rows of the last decode: float32 [rows, width].

        The library's own memory: valid until the next decode, not to be
        written. `expose_nextn` has to be called before that decode.
        """
        return self._hidden(extension("get_embeddings_nextn")(self._handle), rows)

    def layer_input(self, layer: int, rows: int) -> Row:
        """What block `layer` took in for the first `rows` rows: float32 [rows, width], as `nextn`.

        `expose_layer_input` has to be called before that decode.
        """
        return self._hidden(extension("get_embeddings_layer_inp")(self._handle, layer), rows)

    def _hidden(self, pointer: Any, rows: int) -> Row:
        if not 0 < rows <= self._evaluated:
            msg = f"{rows} hidden rows of a decode of {self._evaluated}"
            raise ValueError(msg)
        if not pointer:
            raise EngineError("decode", "the engine gave no hidden states", LOG.problems())
        return np.ctypeslib.as_array(pointer, shape=(rows, self._width))

    def _fill(
        self, tokens: Sequence[int] | None, position: int, outputs: int, embeddings: Rows | None
    ) -> Any:
        if embeddings is None or (self._mixed and tokens is None):
            # The library takes tokens alone, and reads whatever states it saw last.
            raise ValueError("rows of this context are tokens and embeddings, both")
        width = embeddings.shape[-1]
        if width not in self._embeddings:
            msg = f"rows of {width} floats, this context takes {sorted(self._embeddings)}"
            raise ValueError(msg)
        return self._embeddings[width].fill(tokens, position, outputs, embeddings)

    def _look_at(self, found: int | None) -> None:
        """Make views of the library's buffer of logits, which it may move between decodes."""
        if not found:
            raise EngineError("decode", "the engine gave no logits", LOG.problems())
        rows = self._shape[0]
        pointer = ctypes.cast(found, ctypes.POINTER(ctypes.c_float))
        view = np.ctypeslib.as_array(pointer, self._shape)
        self._views = [view[:count] for count in range(rows + 1)]
        self._view_address = found

    def choose_on_device(self, wanted: bool) -> None:  # noqa: FBT001 - its only argument
        """Let the device take the highest logit of every later row, for `chosen`; or no longer.

        The logits then come with the choice, from where the library keeps them.
        Raises EngineError `context` when the library cannot do it.
        """
        lib = native()
        if wanted == bool(self._chooser):
            return
        old, self._chooser, self._view_address = self._chooser, None, 0
        self._logits_of = address("llama_get_logits")
        if wanted:
            self._chooser = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
            lib.llama_sampler_chain_add(self._chooser, lib.llama_sampler_init_greedy())
            sampled = address("llama_get_sampled_logits_ith", ctypes.c_int32)
            self._logits_of = lambda handle: sampled(handle, 0)
        done = lib.llama_set_sampler(self._handle, _SEQUENCE, self._chooser)
        if old:
            lib.llama_sampler_free(old)
        if wanted and not done:
            raise EngineError("context", "the engine cannot choose on the device", LOG.problems())

    def chosen(self, row: int) -> int:
        """The token that the device chose for row `row` of the last decode's logits, or -1."""
        return int(native().llama_get_sampled_token_ith(self._handle, row))

    def trim(self, cells: int) -> bool:
        """Forget every position from `cells` on; whether the library says that it did.

        False at once where the library would say yes and be wrong. Its word is
        not enough: ask `filled` what is really there.
        """
        if self.recurrent:
            if self.filled() - cells > self._droppable:
                return False
            self._droppable = 0  # a second trim before the next decode is refused
        return self._forget(cells)

    def save(self) -> State:
        """A copy of the recurrent state, to go back to with `load`. Empty without one."""
        lib = native()
        size = lib.llama_state_seq_get_size_ext(self._handle, _SEQUENCE, _RECURRENT_PART)
        state = np.empty(size, np.uint8)
        got = lib.llama_state_seq_get_data_ext(
            self._handle, _bytes_of(state), size, _SEQUENCE, _RECURRENT_PART
        )
        if got != size:
            raise EngineError("memory", "the engine could not copy its state", LOG.problems())
        return state

    def load(self, state: State, cells: int) -> bool:
        """Go back to `state`, saved when the memory held `cells` positions; whether it worked."""
        size = native().llama_state_seq_set_data_ext(
            self._handle, _bytes_of(state), len(state), _SEQUENCE, _RECURRENT_PART
        )
        self._droppable = 0
        return size == len(state) and self._forget(cells) and self.filled() == cells

    def _forget(self, cells: int) -> bool:
        return bool(native().llama_memory_seq_rm(self._memory, _SEQUENCE, cells, -1))

    def filled(self) -> int:
        """Positions in memory, counted by the library."""
        return int(self._llama_pos_max(self._memory, _SEQUENCE)) + 1

    def trimmed_to(self, cells: int) -> bool:
        """Whether the memory holds exactly `cells` positions, after a trim where it held more."""
        filled = self.filled()
        if filled > cells and self.trim(cells):
            filled = self.filled()
        return filled == cells

    def clear(self) -> None:
        """Forget everything."""
        self._evaluated = self._droppable = 0
        # With True the buffers are zeroed too: a request must not depend on the one before.
        native().llama_memory_clear(self._memory, True)  # noqa: FBT003 - positional in C

    def close(self) -> None:
        """Free the context; safe to call again. Views of its rows are invalid afterwards."""
        handle, self._handle = self._handle, None
        if handle:
            native().llama_free(handle)
        chooser, self._chooser = self._chooser, None
        if chooser:
            native().llama_sampler_free(chooser)

    @property
    def handle(self) -> Any:
        """The `llama_context *`."""
        return self._handle


def _check(model: Model, config: ContextConfig) -> None:
    """Refuse what the library answers by ending the process."""
    rows = min(config.micro_batch or config.batch, config.batch)
    if config.snapshots and rows < config.snapshots + _ROWS_BESIDE_SNAPSHOTS:
        msg = f"a batch of {rows} rows is too small for {config.snapshots} snapshots"
        raise ValueError(msg)
    if config.kind == "mtp" and not model.has_mtp:
        raise ValueError("the model was loaded without an MTP block")


def _params(lib: Any, config: ContextConfig) -> Any:
    params = lib.llama_context_default_params()
    params.n_ctx = config.cells
    params.n_batch = config.batch
    params.n_ubatch = min(config.micro_batch or config.batch, config.batch)
    params.n_seq_max = 1
    params.n_outputs_max = params.n_outputs_max_per_seq = config.rows
    params.n_threads = params.n_threads_batch = config.threads
    params.n_rs_seq = config.snapshots
    params.ctx_type = _KINDS[config.kind]
    if config.other is not None:
        params.ctx_other = config.other.handle
    params.flash_attn_type = _FLASH_ON if config.flash_attention else _FLASH_OFF
    params.offload_kqv = params.op_offload = config.offload
    params.no_perf = True
    return params


def _bytes_of(state: State) -> Any:
    return state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


def _context_error(config: ContextConfig) -> EngineError:
    if LOG.out_of_memory():
        message = f"there is not enough memory for a context of {config.cells} tokens"
        return EngineError("memory", message, LOG.problems())
    return EngineError("context", "the engine could not make a context", LOG.problems())


def _decode_error(code: int, count: int, position: int) -> EngineError:
    where = f"{count} rows at position {position}"
    if code == _NO_SLOT:
        message = f"the context has no room for {where}"
    elif code == _ABORTED:
        message = f"the evaluation of {where} was aborted"
    else:
        message = f"the evaluation of {where} failed with code {code}"
    return EngineError("decode", message, LOG.problems())
