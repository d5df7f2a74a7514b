"""The installed engine package: its version and its library's file, nothing loaded."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from power.diagnostics import fail

PACKAGE = "llama-cpp-python"

# Struct layouts and call semantics are checked by hand for each version; a
# ctypes structure of the wrong layout corrupts memory instead of failing.
KNOWN_VERSIONS = {"0.3.36": "0.5.0-dev"}


def installed_version() -> str:
    """The installed version of the engine package, one that this adapter knows."""
    try:
        version = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        fail(
            "P520",
            f"the engine package `{PACKAGE}` is not installed",
            expected=" or ".join(KNOWN_VERSIONS),
            hint=f"install it with `pip install {PACKAGE}=={next(iter(KNOWN_VERSIONS))}`",
        )
    if version not in KNOWN_VERSIONS:
        fail(
            "P521",
            f"`{PACKAGE}` {version} is not a version that this adapter knows",
            expected=" or ".join(KNOWN_VERSIONS),
            found=version,
            hint=f"install it with `pip install {PACKAGE}=={next(iter(KNOWN_VERSIONS))}`",
        )
    return version


def library_path() -> Path:
    """Where the installed engine package keeps its `libllama`, existing or not."""
    return Path(str(metadata.distribution(PACKAGE).locate_file("llama_cpp/lib/libllama.so")))
