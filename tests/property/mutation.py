"""Breaking a module on purpose, to see whether anybody notices."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True)
class Mutant:
    """`old` in the source of `module` becomes `new`.

    A snippet that is no longer there is an AssertionError: a rule that is
    rewritten takes its mutant along.
    """

    name: str
    module: str
    old: str
    new: str

    def build(self) -> ModuleType:
        """The mutated module, not registered anywhere."""
        origin = importlib.import_module(self.module).__file__
        assert origin is not None
        source = Path(origin).read_text("utf-8")
        assert source.count(self.old) == 1, f"{self.name}: the snippet is not in {self.module}"
        module = ModuleType(self.module)
        module.__file__ = origin
        exec(compile(source.replace(self.old, self.new), origin, "exec"), module.__dict__)
        return module
