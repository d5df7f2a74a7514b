"""Sealed copies: the bytes that were hashed, and nobody can change them."""

import errno
import fcntl
import hashlib
import mmap
import os
from pathlib import Path

import pytest

from power.artifact import sealing
from power.artifact.hashing import BLOCK
from power.artifact.opened import OpenFile, open_file
from power.artifact.sealing import SealedFile, seal_files
from power.diagnostics import PowerError
from tests.artifact.conftest import Refusal

SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


@pytest.fixture
def files(tmp_path: Path) -> list[OpenFile]:
    for name, size in (("a.gguf", 2 * BLOCK + 3), ("b.gguf", 10)):
        (tmp_path / name).write_bytes(os.urandom(size))
    return [open_file(name, [tmp_path]) for name in ("a.gguf", "b.gguf")]


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _sealed(files: list[OpenFile]) -> list[SealedFile]:
    return list(seal_files(files))


def test_a_copy_holds_the_bytes_and_their_digest(files: list[OpenFile]) -> None:
    for file, copy in zip(files, _sealed(files), strict=True):
        data = file.path.read_bytes()
        assert os.pread(copy.fd, copy.size + 1, 0) == data
        assert Path(copy.path).read_bytes() == data
        assert copy.sha256 == hashlib.sha256(data).hexdigest()
        assert (copy.name, copy.size) == (file.name, len(data))
        assert not os.get_inheritable(copy.fd)
        copy.close()


def test_nobody_can_change_a_copy(files: list[OpenFile]) -> None:
    copy = _sealed(files)[0]
    assert fcntl.fcntl(copy.fd, fcntl.F_GET_SEALS) == SEALS
    with pytest.raises(PermissionError):
        os.pwrite(copy.fd, b"x", 0)
    for size in (1, copy.size + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(copy.fd, size)
    with pytest.raises(PermissionError):
        mmap.mmap(copy.fd, copy.size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(copy.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    with mmap.mmap(copy.fd, copy.size, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE) as view:
        assert hashlib.sha256(view).hexdigest() == copy.sha256
    copy.close()


def test_changing_the_file_later_does_not_change_the_copy(files: list[OpenFile]) -> None:
    copy = _sealed(files)[1]
    files[1].path.write_bytes(b"another one")
    assert hashlib.sha256(os.pread(copy.fd, 100, 0)).hexdigest() == copy.sha256


def test_progress_counts_every_byte(files: list[OpenFile]) -> None:
    seen: list[int] = []
    for copy in seal_files(files, lambda done, total: seen.append(total - done)):
        copy.close()
    assert seen[-1] == 0


def test_a_file_that_changes_meanwhile_leaves_nothing_open(
    files: list[OpenFile], refusal: Refusal
) -> None:
    before = _descriptors()

    def meddle(done: int, total: int) -> None:
        files[0].path.write_bytes(b"short")

    assert "error[P230]" in refusal(lambda: seal_files(files, meddle))
    assert _descriptors() == before


def test_a_system_without_memory_files_says_so(
    files: list[OpenFile], refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    shown = refusal(lambda: seal_files(files))
    assert "error[P233]" in shown
    assert "memfd_create" in shown


def test_a_sandbox_that_forbids_memory_files_says_so(
    files: list[OpenFile], refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(name: str, flags: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", forbidden)
    assert "Operation not permitted" in refusal(lambda: seal_files(files))


def test_too_little_memory_is_said_before_copying(
    files: list[OpenFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "available_memory", lambda: 1000)
    before = _descriptors()
    with pytest.raises(PowerError) as caught:
        seal_files(files)
    assert caught.value.exit_code == 4
    assert caught.value.diagnostics[0].found == "1000 bytes available"
    assert _descriptors() == before


def test_memory_that_runs_out_on_the_way_is_the_same_error(
    files: list[OpenFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    before = _descriptors()
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(PowerError) as caught:
        seal_files(files)
    assert caught.value.diagnostics[0].code == "P234"
    assert _descriptors() == before


@pytest.mark.parametrize(("busy", "refused"), [(1, False), (3, False), (99, True)])
def test_a_page_that_the_kernel_holds_for_a_moment_is_waited_for(
    files: list[OpenFile], monkeypatch: pytest.MonkeyPatch, busy: int, refused: bool
) -> None:
    real, calls, waits = fcntl.fcntl, 0, list[float]()

    def held(fd: int, command: int, value: int) -> int:
        nonlocal calls
        calls += 1
        if calls <= busy:
            raise OSError(errno.EBUSY, "Device or resource busy")
        return real(fd, command, value)

    monkeypatch.setattr("power.artifact.sealing.fcntl.fcntl", held)
    monkeypatch.setattr("power.artifact.sealing.time.sleep", waits.append)
    if refused:
        with pytest.raises(PowerError) as error:
            seal_files(files[:1])
        (found,) = error.value.diagnostics
        assert (found.code, found.hint) == ("P233", "run it again")
        assert len(waits) == 6
        return
    (sealed,) = seal_files(files[:1])
    assert len(waits) == busy
    with pytest.raises(OSError, match="not permitted"):
        os.write(sealed.fd, b"x")
    sealed.close()
