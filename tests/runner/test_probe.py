"""What the engine says of itself, asked in a process that may answer with anything."""

from __future__ import annotations

import sys

import pytest

from power.diagnostics import ExitCode, PowerError
from power.runner.probe import probe


@pytest.mark.parametrize("answer", ["", "ggml: hello\n{}", "{", "{}", "1", "null", "[]", '"x"'])
def test_words_of_the_library_are_no_identity(answer: str) -> None:
    with pytest.raises(PowerError) as caught:
        probe("llamacpp", (sys.executable, "-c", f"print({answer!r})"))
    assert [d.code for d in caught.value.diagnostics] == ["P505"]
    assert caught.value.exit_code is ExitCode.ENGINE_FAILED
