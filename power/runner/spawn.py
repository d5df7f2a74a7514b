"""Starting a child of ours: which command, and what of our environment it gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

_KEPT = frozenset({"HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR"})
# COVERAGE_* says to coverage.py, where it is installed, that children are measured too.
_KEPT_PREFIXES = ("COVERAGE_", "CUDA_", "HIP_", "LC_", "NVIDIA_", "ROCR_")


def child_environment(
    environment: Mapping[str, str] = os.environ, path: Sequence[str] | None = None
) -> dict[str, str]:
    """What a child gets: an allow-list, since no list of secrets is complete.

    GGML_* stays out as well: the plan decides the engine's settings. The child
    imports from where its parent does (`path`, by default `sys.path`), but
    never from the working folder.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
    places = sys.path if path is None else path
    return kept | {
        "PYTHONPATH": os.pathsep.join(p for p in places if os.path.isabs(p)),  # noqa: PTH117 - text in, text out
        "PYTHONUTF8": "1",
        # An abort would start gdb to print a backtrace: seconds, and a second process.
        "GGML_NO_BACKTRACE": "1",
    }


def python_module(module: str) -> tuple[str, ...]:
    """The command that runs `module` with this interpreter.

    -P: no import from the working folder; -s: nor from the user's site.
    """
    return (sys.executable, "-P", "-s", "-m", module)
