"""A small sound manifest and profile, and what it takes to break them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from power.diagnostics import Diagnostic, PowerError
from power.manifest.load import parse_manifest, parse_profile

DIGEST = "ab" * 32
HEAD = f"""\
schema = 1
name = "tiny"

[target]
path = "tiny.gguf"
bytes = 96
sha256 = "{DIGEST}"
"""
PROFILE_HEAD = """\
schema = 1
name = "mine"
summary = "One line"
"""


@pytest.fixture
def head() -> str:
    """The top of a sound manifest, up to the target's digest; more lines of it may follow."""
    return HEAD


@pytest.fixture
def refused() -> Callable[[str | bytes], tuple[Diagnostic, ...]]:
    """What a manifest is refused for."""

    def refuse(text: str | bytes) -> tuple[Diagnostic, ...]:
        data = text if isinstance(text, bytes) else text.encode()
        with pytest.raises(PowerError) as caught:
            parse_manifest(data, "m.toml")
        return caught.value.diagnostics

    return refuse


@pytest.fixture
def profile_refused() -> Callable[[str], tuple[Diagnostic, ...]]:
    """What a profile is refused for, given what follows its summary."""

    def refuse(rest: str) -> tuple[Diagnostic, ...]:
        with pytest.raises(PowerError) as caught:
            parse_profile((PROFILE_HEAD + rest).encode(), "p.toml")
        return caught.value.diagnostics

    return refuse


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file below the test's folder."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write
