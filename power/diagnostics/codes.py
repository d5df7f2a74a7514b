"""The registry of diagnostic codes: read once from `codes.toml`, beside this file."""

from __future__ import annotations

import enum
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


class ExitCode(enum.IntEnum):
    """What the process tells its caller (docs/reference/cli.md)."""

    YES = 0
    NO = 1
    CANNOT_JUDGE = 2
    BROKEN_TRUST = 3
    ENGINE_FAILED = 4
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Code:
    """One entry of the registry."""

    code: str
    title: str
    exit: ExitCode
    text: str


@cache
def _registry() -> dict[str, Code]:
    raw = tomllib.loads(files("power.diagnostics").joinpath("codes.toml").read_text("utf-8"))
    return {
        code: Code(code, entry["title"], ExitCode(entry["exit"]), entry["text"].strip())
        for code, entry in raw.items()
    }


class _Codes(Mapping[str, Code]):
    """A view that reads the file only when somebody asks."""

    def __getitem__(self, code: str) -> Code:
        return _registry()[code]

    def __iter__(self) -> Iterator[str]:
        return iter(_registry())

    def __len__(self) -> int:
        return len(_registry())


CODES: Mapping[str, Code] = _Codes()


def explain(code: str) -> Code | None:
    """The entry for `code` (any letter case), or None when there is none."""
    return CODES.get(code.upper())
