"""Digests of open files: right, complete, and of one state of the file only."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from power.artifact import hashing
from power.artifact.hashing import BLOCK, check_digest, hash_files
from power.artifact.opened import OpenFile, open_file
from power.diagnostics import PowerError
from tests.artifact.conftest import Refusal

SIZES = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[OpenFile]]:
    with ExitStack() as stack:
        out = []
        for index, size in enumerate(SIZES):
            with (tmp_path / f"{index}.gguf").open("wb") as sink:
                sink.write(os.urandom(size))
            out.append(open_file(f"{index}.gguf", [tmp_path]))
            stack.callback(os.close, out[-1].fd)
        yield out


def test_digests_are_sha256_in_order(files: list[OpenFile]) -> None:
    expected = tuple(hashlib.sha256(file.path.read_bytes()).hexdigest() for file in files)
    assert hash_files(files) == expected
    assert hash_files(files) == expected, "the file position does not matter"
    assert hash_files(()) == ()


def test_progress_counts_every_byte(files: list[OpenFile]) -> None:
    seen: list[tuple[int, int]] = []
    hash_files(files, lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (sum(SIZES), sum(SIZES))


def test_one_core_is_enough(files: list[OpenFile], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_cores", lambda: 1)
    assert len(hash_files(files)) == len(files)


@pytest.mark.parametrize("change", ["grow", "shrink", "rewrite"])
def test_a_file_that_changes_has_no_digest(
    change: str, files: list[OpenFile], refusal: Refusal
) -> None:
    file = files[-1]

    def meddle(done: int, total: int) -> None:
        if done != BLOCK:
            return
        if change == "grow":
            with file.path.open("ab") as sink:
                sink.write(b"x")
        elif change == "shrink":
            os.truncate(file.path, BLOCK + 1)
        else:
            with file.path.open("r+b") as sink:
                sink.write(b"x")
            os.utime(file.path, ns=(0, 0))

    shown = refusal(lambda: hash_files([file], meddle))
    assert "error[P230]" in shown
    assert file.name in shown


def test_the_first_failure_ends_the_others(files: list[OpenFile]) -> None:
    """An exception from a progress callback, such as an interrupt, ends all threads."""

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hash_files(files, interrupt)


def test_a_failing_disk_is_a_diagnostic(files: list[OpenFile], refusal: Refusal) -> None:
    folder = os.open(files[0].path.parent, os.O_RDONLY)
    try:
        broken = OpenFile("m.gguf", files[0].path, folder, 10, 0)
        assert "error[P230]" in refusal(lambda: hash_files([broken]))
    finally:
        os.close(folder)


def test_a_digest_that_differs_is_broken_trust() -> None:
    check_digest("m.gguf", "AB" * 32, "ab" * 32)
    with pytest.raises(PowerError) as caught:
        check_digest("m.gguf", "ab" * 32, "cd" * 32)
    assert caught.value.exit_code == 3
    assert caught.value.diagnostics[0].expected == "ab" * 32
