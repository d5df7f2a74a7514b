"""llama.cpp, through the low-level ctypes layer of llama-cpp-python.

`BACKEND` is the entry point. Importing this package loads no native code; only
`BACKEND.open`, in the worker process, does.
"""

from power.backends.llamacpp.backend import BACKEND

__all__ = ["BACKEND"]
