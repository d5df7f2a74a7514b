"""What was really loaded: versions, a digest of each mapped library, devices."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from pathlib import Path
from typing import Any

from power.backends.interface import EngineFacts, EngineIdentity
from power.backends.llamacpp.capabilities import reasons
from power.backends.llamacpp.effects import remarks, without_effect
from power.backends.llamacpp.symbols import SYMBOLS
from power.diagnostics import fail

_LIBRARY = re.compile(r"^lib(llama|ggml|mtmd)[\w.+-]*\.so[\w.]*$")
# address perms offset dev inode path, see proc(5)
_MAPPING = re.compile(r"^\S+ \S+ \S+ (?P<major>\w+):(?P<minor>\w+) (?P<inode>\d+) +(?P<path>/.*)$")


def read_identity(lib: Any, facts: EngineFacts) -> EngineIdentity:
    """Identity of the engine mapped into this process.

    lib: the loaded `llama_cpp.llama_cpp`. Raises PowerError P524 when a mapped
    library's file is gone or is another file by now: its digest would say
    nothing about the code that runs.
    """
    devices = _devices(lib)
    system_info = lib.llama_print_system_info().decode("utf-8", "replace").strip(" |")
    return EngineIdentity(
        package=facts.package,
        version=facts.version,
        llama_cpp=lib.llama_version().decode(),
        libraries=_mapped_libraries(Path("/proc/self/maps").read_text("utf-8", "surrogateescape")),
        devices=devices,
        system_info=system_info,
        lacks=_lacks(lib),
        without_effect=without_effect(has_gpu=lib.llama_supports_gpu_offload(), devices=devices),
        remarks=remarks(system_info, facts.version),
    )


def _lacks(lib: Any) -> dict[str, str]:
    """Strategies for which the mapped library lacks a function, and which one."""
    handle = lib._lib  # noqa: SLF001 - the one ctypes handle of the package
    there = frozenset(name for name, symbol in SYMBOLS.items() if hasattr(handle, symbol))
    return {strategy: why for strategy, why in reasons(there).items() if why is not None}


def _mapped_libraries(maps: str) -> dict[str, str]:
    mapped: dict[str, tuple[str, int, int]] = {}
    for line in maps.splitlines():
        found = _MAPPING.match(line)
        if found is None:
            continue
        name = os.path.basename(found["path"].removesuffix(" (deleted)"))  # noqa: PTH119 - a str
        if _LIBRARY.match(name):
            device = os.makedev(int(found["major"], 16), int(found["minor"], 16))
            mapped[name] = (found["path"], device, int(found["inode"]))
    return {name: _digest(name, *mapped[name]) for name in sorted(mapped)}


def _digest(name: str, path: str, device: int, inode: int) -> str:
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            # Overlay file systems report another device in maps than in stat.
            if status.st_ino == inode:
                return hashlib.file_digest(file, "sha256").hexdigest()
            found = f"inode {status.st_ino} on device {status.st_dev}"
    except OSError as error:
        found = error.strerror or str(error)
    return fail(
        "P524",
        f"the file of the loaded library `{name}` was removed or replaced",
        place=path,
        expected=f"inode {inode} on device {device}",
        found=found,
        hint="let the installation finish, then start the run again",
    )


def _devices(lib: Any) -> tuple[str, ...]:
    """`NAME (description)` of every compute device, in the library's order."""
    # ggml's functions are in a library that libllama is linked to: the same handle finds them.
    handle = lib._lib  # noqa: SLF001 - the one ctypes handle of the package
    handle.ggml_backend_dev_count.restype = ctypes.c_size_t
    get = handle.ggml_backend_dev_get
    get.argtypes, get.restype = [ctypes.c_size_t], ctypes.c_void_p
    out = []
    for index in range(handle.ggml_backend_dev_count()):
        device = get(index)
        name, description = (
            _device_text(handle, f"ggml_backend_dev_{what}", device)
            for what in ("name", "description")
        )
        out.append(f"{name} ({description})")
    return tuple(out)


def _device_text(handle: Any, function: str, device: int) -> str:
    call = getattr(handle, function)
    call.argtypes, call.restype = [ctypes.c_void_p], ctypes.c_char_p
    text: bytes | None = call(device)
    return (text or b"").decode("utf-8", "replace").strip()
