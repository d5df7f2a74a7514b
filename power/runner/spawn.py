"""Starting a child of ours: which command, and what of our environment it gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

_KEPT = frozenset(
    {
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LD_LIBRARY_PATH",
        "PATH",
        "TMPDIR",
        # Which devices there are, and in which order.
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        # They say to coverage.py, where it is installed, that children are measured too.
        "COVERAGE_PROCESS_CONFIG",
        "COVERAGE_PROCESS_START",
    }
)


def child_environment(
    environment: Mapping[str, str] = os.environ, path: Sequence[str] | None = None
) -> dict[str, str]:
    """What a child gets: an allow-list of names, since no list of secrets is complete.

    GGML_* stays out as well: the plan decides the engine's settings. The child
    imports from where its parent does (`path`, by default `sys.path`), but
    never from the working folder.
    """
    kept = {name: value for name, value in environment.items() if name in _KEPT}
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
