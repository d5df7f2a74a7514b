"""The reference backend: a model that is a pure function of its prefix, in pure Python.

What an engine has to do, in the fewest lines: the property tests compare the
scheduler on it with plain decoding, and the runner can run any plan on it as a
second engine. It never reads the artifacts that it is given.
"""

from power.backends.scripted.engine import BACKEND

__all__ = ["BACKEND"]
