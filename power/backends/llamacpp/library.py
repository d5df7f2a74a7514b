"""The native library: loaded once, quiet on stdout and stderr, its words kept in a ring."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from functools import cache
from typing import Any

from power.backends.llamacpp.effects import AMX
from power.backends.llamacpp.installation import KNOWN_VERSIONS, PACKAGE, installed_version
from power.diagnostics import fail

_KEPT_LINES = 400
_OUT_OF_MEMORY = (
    "failed to allocate",
    "unable to allocate",
    "bad_alloc",
    "out of memory",
    "resource temporarily unavailable",  # EAGAIN: the loader's mapping or a thread past a limit
)
_WARN, _ERROR, _CONTINUED = 3, 4, 5  # ggml_log_level of ggml.h


class NativeLog:
    """The last lines the native library logged, oldest first."""

    def __init__(self, limit: int = _KEPT_LINES) -> None:
        self._lines: deque[tuple[int, str]] = deque(maxlen=limit)
        self._open = False  # the last line did not end yet

    def add(self, level: int, text: str) -> None:
        """Take one callback's text: a line, a part of one, or several."""
        if level == _CONTINUED:
            level = self._lines[-1][0] if self._lines else _CONTINUED
        for part in text.splitlines(keepends=True):
            if self._open and self._lines:
                known, before = self._lines.pop()
                self._lines.append((known, before + part.rstrip("\r\n")))
            else:
                self._lines.append((level, part.rstrip("\r\n")))
            self._open = not part.endswith("\n")

    def clear(self) -> None:
        """Forget everything, before a call whose words are wanted alone."""
        self._lines.clear()
        self._open = False

    def problems(self, limit: int = 6) -> str:
        """The last warnings and errors, one a line, or nothing."""
        grave = [line for level, line in self._lines if level in (_WARN, _ERROR) and line]
        return "\n".join(grave[-limit:])

    def out_of_memory(self) -> bool:
        """Whether a warning or an error speaks of an allocation that failed."""
        said = self.problems(_KEPT_LINES).lower()
        return any(words in said for words in _OUT_OF_MEMORY)

    def text(self) -> str:
        """Everything kept."""
        return "\n".join(line for _, line in self._lines)


LOG = NativeLog()


def disable_cuda_graphs() -> None:
    """Run CUDA kernels one by one; has to be called before the first `native`."""
    os.environ["GGML_CUDA_DISABLE_GRAPHS"] = "1"


@cache
def native() -> Any:
    """The module `llama_cpp.llama_cpp` with its library initialised.

    Raises PowerError P523 when the mapped library is not the one of the
    package's version (`LLAMA_CPP_LIB_PATH` can put another one in its place).
    """
    # An abort would start gdb to print a backtrace: seconds, and a second process.
    os.environ["GGML_NO_BACKTRACE"] = "1"
    # Threads meet some 500 times a token. GNU OpenMP lets the first one spin for
    # milliseconds, also when the other waits for the very core it spins on: beside one
    # busy process a token then takes 20 times as long. This many spins (some 50 us)
    # cover what the threads differ by on a quiet machine.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

    import llama_cpp.llama_cpp as lib  # noqa: PLC0415 - loads libllama

    @lib.llama_log_callback  # type: ignore[untyped-decorator]
    def keep(level: int, text: bytes | None, _user_data: object) -> None:
        LOG.add(level, (text or b"").decode("utf-8", "replace"))

    _CALLBACKS.append(keep)
    lib.llama_log_set(keep, None)
    found = lib.llama_version().decode()
    expected = KNOWN_VERSIONS[installed_version()]
    if found != expected:
        fail(
            "P523",
            f"the native library is not the one that `{PACKAGE}` brings",
            expected=expected,
            found=found,
            hint="unset `LLAMA_CPP_LIB_PATH` or install the package again",
        )
    lib.llama_backend_init()
    return lib


def address(name: str, *more: Any) -> Any:
    """The library's function `name` of a handle, its pointer as a plain number or None.

    more: the ctypes of its other arguments.

    The package's own declaration makes an object of every pointer.
    """
    function = native()._lib[name]  # noqa: SLF001 - its one handle; a function of our own
    function.argtypes, function.restype = [ctypes.c_void_p, *more], ctypes.c_void_p
    return function


def repacks(*, asked: bool | None) -> bool:
    """Whether weights are repacked into the CPU's special layouts; None asks for "if it is safe".

    It is not when the library was built with AMX: GCC (12.2 seen) takes the
    operand of `_tile_loadconfig` for 8 of its 64 bytes, drops the stores to the
    others, and the first `tilezero` is an illegal instruction. The layouts are
    chosen together, so that leaving AMX out leaves out all of them
    (docs/adr/0005-plain-weight-layouts-beside-amx.md).
    Raises PowerError P531 where it was asked for and is not safe.
    """
    safe = AMX.encode() not in native().llama_print_system_info()
    if asked and not safe:
        fail(
            "P531",
            "the plan asks for repacked weights, and this engine was built with AMX kernels",
            expected="an engine built without AMX (`power doctor` says how)",
            found=AMX,
            hint='set `graph.repack` to "auto" or "off", or build the engine without AMX',
        )
    return safe if asked is None else asked


# ctypes callbacks live as long as this list; the library keeps bare pointers to them.
_CALLBACKS: list[Any] = []
