"""A model's weights, loaded from open files, and its vocabulary's handle."""

from __future__ import annotations

import ctypes
import fcntl
from collections.abc import Callable, Sequence
from typing import Any, Literal

from power.backends.errors import EngineError
from power.backends.llamacpp.library import LOG, native, repacks

# llama_load_mode: read into private memory, or map the file.
LOAD_READ, LOAD_MMAP = 0, 1

_SPLIT_NONE = 0
_POSITION_AXES = 4  # of rotary sections: time, height, width, and one that nobody uses
_TEXT_BYTES = 256


class Model:
    """Owns one `llama_model`. Close it after every context made of it.

    fds: the GGUF's shards in order, as open descriptors; they may be closed
    after the constructor. Every tensor is validated: a NaN, an infinity or a
    broken block refuses the file. progress gets 0.0 to 1.0; an exception it
    raises stops the loading and comes out of the constructor. repack: see
    `library.repacks`. load_mtp: load the blocks of the model's own draft
    (multi-token prediction) too.
    Raises EngineError, kind `load` or `memory`, and PowerError P531.
    """

    def __init__(  # noqa: PLR0913 - the loader's own settings
        self,
        fds: Sequence[int],
        *,
        what: str,
        gpu_layers: int | Literal["all"] = "all",
        main_gpu: int = 0,
        repack: bool | None = None,
        load_mtp: bool = False,
        load_mode: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        lib = native()
        params = lib.llama_model_default_params()
        params.n_gpu_layers = -1 if gpu_layers == "all" else gpu_layers
        params.main_gpu = main_gpu
        if lib.llama_supports_gpu_offload():
            params.split_mode = _SPLIT_NONE  # the whole model on main_gpu, as the plan says
        params.load_mode = safe_load_mode(fds) if load_mode is None else load_mode
        params.load_mtp = load_mtp
        params.check_tensors = True
        params.use_extra_bufts = repacks(asked=repack)
        watcher = _Progress(progress)
        params.progress_callback = lib.llama_progress_callback(watcher)
        LOG.clear()
        self._handle: Any = _load(lib, fds, params)
        if watcher.error is not None:
            self.close()
            raise watcher.error
        if not self._handle:
            raise _refusal(what)
        self.vocab: Any = lib.llama_model_get_vocab(self._handle)
        self.vocabulary_size: int = lib.llama_vocab_n_tokens(self.vocab)
        self.width: int = lib.llama_model_n_embd(self._handle)
        rotary = lib.llama_model_rope_type(self._handle)
        sections = rotary in {lib.LLAMA_ROPE_TYPE_MROPE, lib.LLAMA_ROPE_TYPE_IMROPE}
        self.position_axes = _POSITION_AXES if sections else 1
        # The count is the file's: it says the same when the blocks were not loaded. The library
        # evaluates a single one.
        self.has_mtp: bool = load_mtp and lib.llama_model_n_layer_nextn(self._handle) == 1
        self.recurrent: bool = bool(
            lib.llama_model_is_recurrent(self._handle) or lib.llama_model_is_hybrid(self._handle)
        )

    def text(self, key: str) -> str | None:
        """A metadata value as the library writes it (`true`, `8`), None where the file is silent.

        Cut at 255 bytes.
        """
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        size = native().llama_model_meta_val_str(
            self.handle, key.encode(), buffer, ctypes.sizeof(buffer)
        )
        return buffer.value.decode("utf-8", "replace") if size >= 0 else None

    @property
    def handle(self) -> Any:
        """The `llama_model *`."""
        if not self._handle:
            raise EngineError("load", "the model is closed")
        return self._handle

    def close(self) -> None:
        """Free the weights; safe to call again."""
        handle, self._handle = self._handle, None
        if handle:
            native().llama_model_free(handle)


def safe_load_mode(fds: Sequence[int]) -> int:
    """Map files that nobody can write to any more, read all others.

    A mapped file that is edited in place changes the model that runs; a sealed
    memory file can not be edited. See docs/adr/0002-loading-artifacts.md.
    """
    return LOAD_MMAP if all(map(_is_sealed, fds)) else LOAD_READ


def _is_sealed(fd: int) -> bool:
    try:
        return bool(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE)
    except OSError:  # not a memory file
        return False


def _load(lib: Any, fds: Sequence[int], params: Any) -> Any:
    paths = [f"/proc/self/fd/{fd}".encode() for fd in fds]
    if len(paths) == 1:
        return lib.llama_model_load_from_file(paths[0], params)
    array = (ctypes.c_char_p * len(paths))(*paths)
    return lib.llama_model_load_from_splits(array, len(paths), params)


def _refusal(what: str) -> EngineError:
    if LOG.out_of_memory():
        return EngineError(
            "memory", f"there is not enough memory to load the {what}", LOG.problems()
        )
    return EngineError("load", f"the engine refused the {what}", LOG.problems())


class _Progress:
    """The loader's callback: passes progress on and stops the loading on an exception."""

    def __init__(self, report: Callable[[float], None] | None) -> None:
        self._report = report
        self.error: BaseException | None = None

    def __call__(self, fraction: float, _user_data: object) -> bool:
        """Whether the loader goes on. An exception must not cross native frames."""
        if self._report is not None:
            try:
                self._report(fraction)
            except BaseException as error:  # noqa: BLE001 - raised again by the constructor
                self.error = error
                return False
        return True
