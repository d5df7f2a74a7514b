"""A backend as a package of its own: what docs/how-to/add-a-backend.md shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from power.backends.interface import Engine, EngineConfig, EngineFacts, EngineIdentity
from power.backends.registry import backend

PACKAGE = "power-example-backend"
VERSION = "1.0"


class ExampleBackend:
    """Describes itself without loading anything; opens an engine in the worker."""

    name = "example"

    def describe(self) -> EngineFacts:
        """From metadata alone: this process may hold a signing key."""
        return EngineFacts(
            package=PACKAGE,
            version=VERSION,
            llama_cpp="none",
            capabilities={"off": None, "prompt-lookup": None, "mtp": "it has no such head"},
        )

    def identify(self) -> EngineIdentity:
        """In a child process: what was really loaded."""
        return replace(backend("scripted").identify(), package=PACKAGE, version=VERSION)

    def open(self, config: EngineConfig, progress: Callable[[float], None]) -> Engine:
        """In the worker: models loaded from open descriptors, contexts made once."""
        engine = backend("scripted").open(config, progress)
        engine.identity = self.identify()
        return engine


BACKEND = ExampleBackend()
