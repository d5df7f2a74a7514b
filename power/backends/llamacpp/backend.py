"""The engine package's face: versions known without loading it, and `open`."""

from __future__ import annotations

from collections.abc import Callable

from power.backends.interface import Engine, EngineConfig, EngineFacts, EngineIdentity
from power.backends.llamacpp.capabilities import capabilities
from power.backends.llamacpp.gbnf import grammar_fault
from power.backends.llamacpp.installation import (
    KNOWN_VERSIONS,
    PACKAGE,
    installed_version,
    library_path,
)
from power.diagnostics import fail


class LlamaCppBackend:
    """`power.backends.interface.Backend` for llama.cpp."""

    name = "llamacpp"

    def describe(self) -> EngineFacts:
        """Versions from package metadata, functions from the library's file.

        Raises PowerError P520 or P521.
        """
        version = installed_version()
        return EngineFacts(
            package=PACKAGE,
            version=version,
            llama_cpp=KNOWN_VERSIONS[version],
            capabilities=capabilities(library_path()),
            grammar_fault=grammar_fault,
        )

    def identify(self) -> EngineIdentity:
        """The library as this process maps it; raises PowerError P520 to P524."""
        from power.backends.llamacpp.identity import read_identity  # noqa: PLC0415 - native code
        from power.backends.llamacpp.library import native  # noqa: PLC0415 - loads libllama

        return read_identity(native(), self.describe())

    def open(self, config: EngineConfig, progress: Callable[[float], None]) -> Engine:
        """Load the models and make the contexts.

        Raises PowerError (P52x) for what the plan asks and this engine lacks,
        EngineError when the native library refuses or fails.
        """
        facts = self.describe()
        reason = facts.capabilities.get(config.strategy, "no such strategy is known")
        if reason is not None:
            fail(
                "P522",
                f"the engine does not run the strategy `{config.strategy}`: {reason}",
                expected=", ".join(k for k, v in facts.capabilities.items() if v is None),
                found=config.strategy,
                hint="choose another `spec_mode` and compile the plan again",
            )
        from power.backends.llamacpp.engine import open_engine  # noqa: PLC0415 - loads libllama

        return open_engine(config, facts, progress)


BACKEND = LlamaCppBackend()
