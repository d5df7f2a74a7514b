"""Files that may not be read, and folders that may not be written.

Root may read and write everything, and tests often run as root: the commands here
run without that privilege then, so that modes bind them as they bind anybody else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Bench, to_tune

pytestmark = pytest.mark.engine

AS_ANYBODY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")
VECTORS = Path(__file__).parents[1] / "vectors" / "receipts"


@pytest.fixture
def through(tmp_path: Path) -> tuple[str, ...]:
    """What a command runs through so that modes bind it."""
    if os.geteuid() != 0:
        return ()
    closed = tmp_path / "closed"
    closed.write_text("secret")
    closed.chmod(0)
    try:
        found = subprocess.run([*AS_ANYBODY, "cat", str(closed)], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("SKIPPED: root here, and no `setpriv` to be anybody else")
    closed.unlink()
    if found.returncode == 0 or b"ermission denied" not in found.stderr:
        pytest.skip(f"SKIPPED: root cannot give up its privilege here: {found.stderr!r}")
    return AS_ANYBODY


@pytest.fixture
def other(ready: Bench, through: tuple[str, ...]) -> Iterator[Bench]:
    """A folder with a model, a key, a plan, a receipt and prompts, whose modes bind."""
    ready.write("p.jsonl", '{"prompt": "one"}\n')
    ready.write("prompt.txt", "one")
    to_tune(ready)
    ready.write("trust.toml", "schema = 1\n")
    for name in ("ed25519.sigstore.json", "ed25519.pub"):
        shutil.copy(VECTORS / name, ready.folder / name)
    yield Bench(ready.folder, through)
    ready.folder.chmod(0o755)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("file", "command", "code"),
    [
        ("manifest.toml", "compile manifest.toml", "P101"),
        ("target.gguf", "compile manifest.toml", "P224"),
        ("target.gguf", "run plan.lock --prompt one", "P224"),
        ("plan.lock", "run plan.lock --prompt one", "P430"),
        ("plan.lock", "show plan.lock", "P430"),
        ("key.pem", "run plan.lock --prompt one", "P605"),
        ("prompt.txt", "run plan.lock --prompt-file prompt.txt", "P706"),
        ("p.jsonl", "run plan.lock --prompts p.jsonl --out o.jsonl", "P573"),
        ("target.gguf", "inspect target.gguf", "P224"),
        ("target.gguf", "init target.gguf -o new.toml", "P224"),
        ("ed25519.sigstore.json", "verify ed25519.sigstore.json --key ed25519.pub", "P605"),
        ("ed25519.pub", "verify ed25519.sigstore.json --key ed25519.pub", "P605"),
        ("trust.toml", "verify ed25519.sigstore.json --trust trust.toml", "P101"),
        ("plan.lock", "verify ed25519.sigstore.json --key ed25519.pub --plan plan.lock", "P706"),
        ("key.pem.pub", "key show key.pem.pub", "P605"),
    ],
)
def test_a_file_that_may_not_be_read(other: Bench, file: str, command: str, code: str) -> None:
    before = contents(other.folder)
    (other.folder / file).chmod(0)
    done = other(*command.split())
    assert done.code == 2, done.stderr
    assert f"error[{code}]" in done.stderr
    assert "permission denied" in done.stderr.lower()
    assert done.stdout == b""
    assert contents(other.folder) == before


@pytest.mark.parametrize("mode", [0o500, 0o400, 0])
@pytest.mark.parametrize(
    "command",
    [
        "compile manifest.toml -o sub/new.lock",
        "key new sub/new.pem",
        "init target.gguf -o sub/new.toml",
        "run plan.lock --prompt one --receipt sub/r.json",
        "run plan.lock --prompts p.jsonl --out sub/o.jsonl",
        "bench plan.lock --prompts p.jsonl -o sub/b.json",
        "certify plan.lock --prompts p.jsonl -o sub/c.json",
        "tune open.toml --prompts p.jsonl -o sub/t.toml",
    ],
)
def test_a_folder_that_may_not_be_written(other: Bench, command: str, mode: int) -> None:
    """Found before anything is run: there is no text, and no time is lost."""
    sub = other.folder / "sub"
    sub.mkdir()
    before = contents(other.folder)
    sub.chmod(mode)
    done = other(*command.split())
    assert done.code == 2, done.stderr
    assert "error[P441]" in done.stderr or "error[P573]" in done.stderr, done.stderr
    assert done.stdout == b""
    sub.chmod(0o700)
    assert contents(other.folder) == before


def test_a_lock_that_is_there_and_may_not_be_replaced(other: Bench) -> None:
    before = (other.folder / "plan.lock").read_bytes()
    other.folder.chmod(0o555)
    text = (other.folder / "manifest.toml").read_text()
    (other.folder / "manifest.toml").write_text(text.replace("max_tokens = 48", "max_tokens = 47"))
    try:
        done = other("compile", "manifest.toml")
    finally:
        (other.folder / "manifest.toml").write_text(text)
    assert (done.code, "error[P441]" in done.stderr) == (2, True), done.stderr
    assert (other.folder / "plan.lock").read_bytes() == before


def closed(folder: Path) -> Path:
    (folder / "closed").mkdir(mode=0o500)
    return folder / "closed" / "home"


HOMES: dict[str, Callable[[Path], Path]] = {
    "cannot be made": closed,
    "is a file": lambda folder: folder / "manifest.toml",
    "is not ours": lambda _: Path("/proc/1"),
}


@pytest.mark.parametrize("home", HOMES)
def test_a_home_that_takes_no_key(other: Bench, home: str) -> None:
    """A key that has no place of its own is a word, not a key somewhere else."""
    place = str(HOMES[home](other.folder))
    before = contents(other.folder)
    done = other("key", "new", env={"HOME": place, "XDG_DATA_HOME": place, "POWER_KEY": ""})
    assert done.code == 2, done.stderr
    assert "error[P" in done.stderr
    assert contents(other.folder) == before
