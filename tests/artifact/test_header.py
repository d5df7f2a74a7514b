"""Reading headers: growth of the window, laziness, changes under the reader, sparse files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from power.artifact import window
from power.artifact.header import read_header
from power.artifact.values import Numbers, Strings
from power.artifact.window import HEADER_LIMIT, Window
from tests.artifact.build import F32, I32, STRING, U32, Gguf, llama, reduced
from tests.artifact.conftest import Read, Refusal


def test_arrays_larger_than_one_step_of_the_window(read: Read) -> None:
    """Texts and numbers that straddle every growth of the window come out whole."""
    words = [f"token number {index} " + "x" * (index % 97) for index in range(40_000)]
    gguf = llama().put_array("x.words", STRING, words).put_array("x.floats", F32, [0.5] * 300_000)
    header = read(gguf)
    strings, floats = header.values["x.words"].data, header.values["x.floats"].data
    assert isinstance(strings, Strings)
    assert isinstance(floats, Numbers)
    assert [item.decode() for item in strings.items()] == words
    assert strings[39_999].decode() == words[39_999]
    assert list(strings) == strings.items()
    assert set(floats.items()) == {0.5}
    assert header.integer("llama.block_count") == 3


def test_an_index_outside_an_array_is_an_error(read: Read) -> None:
    strings = read(Gguf().put_array("x", STRING, ["a", "b"])).values["x"].data
    assert isinstance(strings, Strings)
    for index in (-1, 2):
        with pytest.raises(IndexError):
            strings[index]


def test_equal_arrays_have_equal_regions(read: Read) -> None:
    gguf = Gguf().put_array("x", STRING, ["a", "bc"]).put_array("y", STRING, ["a", "bc"])
    gguf.put_array("z", STRING, ["ab", "c"])
    values = read(gguf).values
    regions = [values[key].data for key in "xyz"]
    assert all(isinstance(data, Strings) for data in regions)
    x, y, z = (data.region for data in regions if isinstance(data, Strings))
    assert x == y
    assert x != z


def test_the_file_position_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(llama().encode())
    with path.open("rb") as file:
        file.seek(7)
        read_header(file.fileno(), path.stat().st_size, "m.gguf")
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 7


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path, refusal: Refusal) -> None:
    path = tmp_path / "m.gguf"
    data = llama().encode()
    path.write_bytes(data)
    with path.open("rb") as file:
        os.truncate(path, 100)
        shown = refusal(lambda: read_header(file.fileno(), len(data), "m.gguf"))
    assert "error[P210]" in shown
    assert "became shorter" in shown


def test_a_device_that_fails_is_a_diagnostic(tmp_path: Path, refusal: Refusal) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)  # reading a folder fails with EISDIR
    try:
        shown = refusal(lambda: read_header(fd, 100, "m.gguf"))
    finally:
        os.close(fd)
    assert "error[P210]" in shown


def test_a_sparse_file_of_a_tebibyte_costs_nothing(tmp_path: Path, refusal: Refusal) -> None:
    """Counts that such a size allows are still held to what real files have."""
    path = tmp_path / "m.gguf"
    gguf = Gguf(pair_count=1 << 30)
    path.write_bytes(gguf.encode())
    os.truncate(path, 1 << 40)
    with path.open("rb") as file:
        shown = refusal(lambda: read_header(file.fileno(), 1 << 40, "m.gguf"))
    assert "at most 65536" in shown


def test_the_header_has_a_limit(tmp_path: Path, refusal: Refusal) -> None:
    """In a file with room for it, an array past the limit is refused before it is read."""
    path = tmp_path / "m.gguf"
    count = HEADER_LIMIT // 4 + 1
    pairs = Gguf().raw("x", 9, b"\x06\0\0\0" + count.to_bytes(8, "little"))
    path.write_bytes(pairs.encode())
    os.truncate(path, HEADER_LIMIT * 4)
    with path.open("rb") as file:
        shown = refusal(lambda: read_header(file.fileno(), HEADER_LIMIT * 4, "m.gguf"))
    assert "error[P209]" in shown


def test_reads_stay_inside_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header is read in steps: a file's tensors are not read with it."""
    path = tmp_path / "m.gguf"
    data = llama().encode()
    path.write_bytes(data)
    read = 0
    pread = os.pread

    def counting(fd: int, count: int, offset: int) -> bytes:
        nonlocal read
        read += count
        return pread(fd, count, offset)

    monkeypatch.setattr(window, "_STEP", 512)
    monkeypatch.setattr(os, "pread", counting)
    with path.open("rb") as file:
        read_header(file.fileno(), len(data), "m.gguf")
    assert read <= len(llama().header()) + 512


def test_a_frozen_window_is_immutable(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abcdef")
    with path.open("rb") as file:
        view = Window(file.fileno(), 6, "x")
        assert view.reach(4)
        assert not view.reach(7)
        view.freeze(4)
    assert view.data == b"abcd"


def test_the_numbers_of_a_reduced_head_are_kept(read: Read) -> None:
    header = read(reduced(llama(1), [5, 3, 9]))
    assert header.contents["d2t"] == b"".join(i.to_bytes(8, "little") for i in (5, 3, 9))
    assert read(llama(1)).contents == {}


def test_a_large_vocabulary_is_read_within_80_mebibytes(tmp_path: Path) -> None:
    """The whole process: a quarter of a million tokens, scores, types and merges."""
    count = 262_144
    gguf = Gguf().put_array("tokenizer.ggml.tokens", STRING, [f"<{i:x}>" for i in range(count)])
    gguf.put_array("tokenizer.ggml.merges", STRING, [f"{i:x} {i:x}" for i in range(count)])
    gguf.put_array("tokenizer.ggml.scores", F32, [0.0] * count)
    gguf.put_array("tokenizer.ggml.token_type", I32, [1] * count)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf.put("x", U32, 7).encode())
    code = (
        "import os, sys; from pathlib import Path; from power.artifact.header import read_header;"
        "fd = os.open(sys.argv[1], os.O_RDONLY);"
        "assert read_header(fd, os.fstat(fd).st_size, 'm').integer('x') == 7;"
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 80 * 1024
