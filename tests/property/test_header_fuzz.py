"""Whatever happens to a GGUF's bytes, reading it ends in a header or in a PowerError."""

import json
import os
import tempfile
import tracemalloc
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from power.artifact.inspection import inspect
from power.diagnostics import PowerError, as_text
from tests.artifact import build

FILES = {
    name: getattr(build, name)().encode()
    for name in ("llama", "qwen35", "eagle3", "dflash", "dflash2", "dspark")
}
MEMORY = 16 << 20
"""Bytes of Python memory that any of these small files may cost."""

edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.one_of(
            st.binary(min_size=1, max_size=1),
            st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x08\0\0\0", b"\x09\0\0\0", b"GGUF"]),
            st.binary(min_size=1, max_size=12),
        ),
    ),
    max_size=4,
)


def _shown(path: Path) -> str:
    """The report, or the refusal: nothing else may be raised."""
    try:
        return json.dumps(inspect(path, None, None), allow_nan=False)
    except PowerError as error:
        refused = error
    assert refused.exit_code == 2
    assert {diagnostic.code[:2] for diagnostic in refused.diagnostics} <= {"P2", "P3"}
    return as_text(refused.diagnostics)


def _judge(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        path.write_bytes(data)
        descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count
        tracemalloc.start()
        shown = _shown(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert all(line.isprintable() for line in shown.splitlines())
        assert peak < MEMORY
        assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208 - a count


@settings(max_examples=300)
@given(name=st.sampled_from(sorted(FILES)), changes=edits, header_only=st.booleans())
def test_any_bytes_changed(
    name: str, changes: list[tuple[float, bytes]], header_only: bool
) -> None:
    data = bytearray(FILES[name])
    end = 6000 if header_only else len(data)
    for where, new in changes:
        at = int(where * min(end, len(data)))
        data[at : at + len(new)] = new
    _judge(bytes(data))


@settings(max_examples=100)
@given(name=st.sampled_from(sorted(FILES)), where=st.floats(0, 1), tail=st.binary(max_size=40))
def test_any_end(name: str, where: float, tail: bytes) -> None:
    data = FILES[name]
    _judge(data[: int(where * len(data))] + tail)


@settings(max_examples=100)
@given(noise=st.binary(max_size=400))
def test_any_noise_after_a_magic(noise: bytes) -> None:
    _judge(b"GGUF\x03\0\0\0" + noise)
