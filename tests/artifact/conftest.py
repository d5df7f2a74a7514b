"""Reading what `build` writes, from real files."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from power.artifact.header import Header, read_header
from power.diagnostics import PowerError, as_text
from tests.artifact.build import Gguf

Read = Callable[[Gguf | bytes], Header]
Refusal = Callable[[Callable[[], object]], str]


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Read]:
    """Write a GGUF to a file and read its header from there."""
    with ExitStack() as stack:

        def run(gguf: Gguf | bytes) -> Header:
            data = gguf if isinstance(gguf, bytes) else gguf.encode()
            path = tmp_path / "model.gguf"
            path.write_bytes(data)
            fd = os.open(path, os.O_RDONLY)
            stack.callback(os.close, fd)
            return read_header(fd, len(data), "model.gguf")

        yield run


@pytest.fixture
def refusal() -> Refusal:
    """Call something that must raise PowerError; the text a person would see."""

    def run(action: Callable[[], object]) -> str:
        with pytest.raises(PowerError) as caught:
            action()
        return as_text(caught.value.diagnostics)

    return run
