"""Artifacts, disks and places as nobody wants them: refused in words, nothing half-written."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Bench

pytestmark = pytest.mark.engine

GIB = 1 << 30
POWER = f'"{sys.executable}" -m power'


def shell(bench: Bench, script: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run `script`, whose limits are for POWER alone: coverage would write a file of its own."""
    kept = {k: v for k, v in bench.environment().items() if not k.startswith("COVERAGE_")}
    done = subprocess.run(
        ["bash", "-c", script.replace("POWER ", f"{POWER} ")],
        cwd=bench.folder,
        env=kept | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    return done


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's address holds 108 bytes
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def a_loop(path: Path) -> None:
    path.symlink_to(path.name)


def a_link_out(path: Path) -> None:
    path.symlink_to("/etc/hostname")


PLACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (Path.mkdir, "P223"),
    "a pipe": (os.mkfifo, "P223"),
    "a socket": (a_socket, "P223"),
    "a link out of the root": (a_link_out, "P222"),
    "a loop of links": (a_loop, "P224"),
    "a broken link": (lambda path: path.symlink_to("nowhere"), "P221"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "P222"),
}


@pytest.mark.parametrize("what", PLACES)
@pytest.mark.parametrize("verb", ["compile manifest.toml", "run plan.lock --prompt one"])
def test_in_an_artifacts_place(ready: Bench, what: str, verb: str) -> None:
    make, code = PLACES[what]
    target = ready.folder / "target.gguf"
    target.unlink()
    make(target)
    before = (ready.folder / "plan.lock").read_bytes()
    done = ready(*verb.split())
    assert done.code == 2
    assert f"error[{code}]" in done.stderr
    assert done.stdout == b""
    assert (ready.folder / "plan.lock").read_bytes() == before
    assert ready.receipts == []


@pytest.mark.parametrize(
    "name", ["a b.gguf", "ü.gguf", "x" * 250 + ".gguf", "-o.gguf", "$(id).gguf"]
)
def test_odd_names_are_names(bench: Bench, name: str) -> None:
    (bench.folder / "target.gguf").rename(bench.folder / name)
    bench.edit("manifest.toml", "target.gguf", name)
    assert bench("compile", "manifest.toml").code == 0
    assert bench("key", "new").code == 0
    assert bench("run", "plan.lock", "--prompt", "one", "--max-tokens", "2").code == 0


@pytest.mark.parametrize("change", ["one bit", "cut short", "longer", "another model"])
def test_a_file_that_changed_since_it_was_compiled_is_not_run(ready: Bench, change: str) -> None:
    target = ready.folder / "target.gguf"
    data = bytearray(target.read_bytes())
    if change == "one bit":
        data[-100] ^= 1
    elif change == "cut short":
        del data[-32:]
    elif change == "longer":
        data += bytes(32)
    else:
        data[-4096:] = bytes(4096)
    target.write_bytes(data)
    done = ready("run", "plan.lock", "--prompt", "one")
    assert (done.code, done.stdout) == (3, b"")
    assert ready.receipts == []


def test_a_sparse_file_of_five_gibibytes_costs_neither_time_nor_memory(ready: Bench) -> None:
    """Its size is wrong, so that nothing of it is hashed; inspecting reads its header alone."""
    with (ready.folder / "target.gguf").open("r+b") as file:
        file.truncate(5 * GIB)
    limit = f"ulimit -v {2 * GIB >> 10}; "
    done = shell(ready, limit + "POWER inspect target.gguf")
    assert done.returncode == 2
    assert b"error[P208]" in done.stderr
    done = shell(ready, limit + "POWER compile manifest.toml")
    assert done.returncode == 3
    assert b"error[P444]" in done.stderr


@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("compile manifest.toml -o new.lock", "new.lock"),
        ("key new other.pem", "other.pem"),
        ("init target.gguf -o new.toml", "new.toml"),
    ],
)
def test_a_disk_that_is_full_leaves_nothing(ready: Bench, command: str, made: str) -> None:
    """No file may hold a byte: what a full disk does to the first write."""
    names = {path.name for path in ready.folder.iterdir()}
    done = shell(ready, f"ulimit -f 0; POWER {command}")
    assert done.returncode == 2
    assert b"error[P441]" in done.stderr
    assert {path.name for path in ready.folder.iterdir()} == names
    assert made not in names


def test_a_lock_on_a_full_disk_stays_the_old_one(ready: Bench) -> None:
    before = (ready.folder / "plan.lock").read_bytes()
    ready.edit("manifest.toml", "max_tokens = 48", "max_tokens = 47")
    done = shell(ready, "ulimit -f 0; POWER compile manifest.toml")
    assert done.returncode == 2
    assert (ready.folder / "plan.lock").read_bytes() == before


@pytest.mark.parametrize("place", ["/proc/self", "/sys", "/dev/null"])
def test_a_place_that_takes_no_files(ready: Bench, place: str) -> None:
    for command in (
        f"compile manifest.toml -o {place}/plan.lock",
        f"key new {place}/key.pem",
        f"run plan.lock --prompt one --receipt {place}/r.json",
    ):
        done = ready(*command.split())
        assert (done.code, done.stdout) == (2, b""), command
        assert "error[P4" in done.stderr, command


def test_without_a_home_a_key_has_a_place_or_a_word(bench: Bench, tmp_path: Path) -> None:
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(
        [sys.executable, "-m", "power", "key", "show"],
        cwd=bench.folder,
        env=kept | {"XDG_DATA_HOME": str(tmp_path / "none")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 2
    assert b"error[P" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_files_to_write_to(ready: Bench, closed: str) -> None:
    names = {path.name for path in ready.folder.iterdir()}
    done = shell(ready, f"POWER compile manifest.toml {closed}")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in ready.folder.iterdir()} == names
    assert ready("show", "plan.lock").code == 0
