"""A disk that is truly full, or that takes nothing: the old file or the new one, never half.

`tests/faults` lets each step of writing fail; here the system does it, wherever it does.
Mounting takes root and a system that lets it: without, these tests are skipped, and say so.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Bench, to_tune

pytestmark = pytest.mark.engine

PAGE = 4096


def mounted(place: Path, *options: str) -> Iterator[Path]:
    """Mount at `place` while a test runs."""
    place.mkdir()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join(("size=1m", *options)), "none", str(place)],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("SKIPPED: there is no `mount` here")
    if done.returncode:
        pytest.skip(f"SKIPPED: nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def disk(prompted: Bench) -> Iterator[Path]:
    """A disk of one MiB at `disk` in the working folder."""
    yield from mounted(prompted.folder / "disk")


@pytest.fixture
def fixed(prompted: Bench) -> Iterator[Path]:
    """A disk that takes nothing, at `disk`."""
    yield from mounted(prompted.folder / "disk", "ro")


@pytest.fixture
def prompted(ready: Bench) -> Bench:
    lines = [f'{{"id": "{n}", "prompt": "one two one two", "max_tokens": 4}}\n' for n in range(6)]
    ready.write("p.jsonl", "".join(lines))
    ready.write("t.jsonl", '{"question": "one two", "answer": "one", "scorer": "text"}\n' * 3)
    to_tune(ready)
    return ready


def fill(disk: Path, left: int = 0) -> None:
    """Leave `left` bytes of space, in whole pages."""
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(PAGE))
        except OSError:
            file.truncate(file.seek(0, os.SEEK_END) - left)


def rest(disk: Path) -> dict[str, bytes]:
    """Everything on `disk` but what fills it."""
    return {
        path.relative_to(disk).as_posix(): path.read_bytes()
        for path in disk.rglob("*")
        if path.is_file() and path.name != "filler"
    }


ONE_FILE = {
    "compile": "compile manifest.toml -o disk/plan.lock",
    "init": "init target.gguf -o disk/new.toml",
    "key": "key new disk/key.pem",
    "run": "run plan.lock --prompt one --receipt disk/r.json",
    "certify": "certify plan.lock --prompts p.jsonl --max-tokens 4 -o disk/c.json",
}
JOURNALS = {
    "batch": "run plan.lock --prompts p.jsonl --out disk/o.jsonl",
    "bench": "bench plan.lock --prompts p.jsonl --anyway --samples 1 --warmup 0 -o disk/b.json",
    "quality": "quality plan.lock --control --tasks t.jsonl --max-tokens 4 -o disk/q.json",
    "tune": "tune open.toml --prompts p.jsonl --anyway --samples 1 --widest 2 -o disk/t.toml",
}
"""What goes on where it was."""
WRITERS = ONE_FILE | JOURNALS
SAID = dict.fromkeys(WRITERS, (0,)) | {"certify": (0, 1), "quality": (1,)}  # 1: it is not shown


@pytest.mark.parametrize("writer", ONE_FILE)
def test_a_full_disk_has_no_part_of_a_file(prompted: Bench, disk: Path, writer: str) -> None:
    fill(disk)
    done = prompted(*ONE_FILE[writer].split())
    assert done.code == 2, done.stderr
    assert "error[P441]" in done.stderr
    assert "no space left on device" in done.stderr.lower()
    assert rest(disk) == {}
    (disk / "filler").unlink()
    assert prompted(*ONE_FILE[writer].split()).code in SAID[writer]


def test_a_key_of_which_one_half_fits_is_no_key(prompted: Bench, disk: Path) -> None:
    fill(disk, left=PAGE)
    done = prompted("key", "new", "disk/key.pem")
    assert done.code == 2, done.stderr
    assert rest(disk) == {}


@pytest.mark.parametrize("writer", ["compile", "certify"])
def test_an_old_file_stays(prompted: Bench, disk: Path, writer: str) -> None:
    command = ONE_FILE[writer].split()
    assert prompted(*command).code in SAID[writer]
    before = rest(disk)
    fill(disk)
    if writer == "compile":
        prompted.edit("manifest.toml", "max_tokens = 48", "max_tokens = 47")
    done = prompted(*command, *(["--force"] if writer == "certify" else []))
    assert done.code == 2, done.stderr
    assert "error[P441]" in done.stderr
    assert rest(disk) == before


@pytest.mark.parametrize(
    ("writer", "left"),
    [
        ("batch", 0),
        ("batch", PAGE),
        ("bench", 0),
        ("bench", 4 * PAGE),
        ("quality", 0),
        ("quality", 8 * PAGE),
        ("tune", 0),
        ("tune", PAGE),
    ],
)
def test_what_stopped_on_a_full_disk_goes_on(
    prompted: Bench, disk: Path, writer: str, left: int
) -> None:
    """Whatever is there is whole lines, and the same command makes the rest of it."""
    fill(disk, left)
    done = prompted(*JOURNALS[writer].split())
    assert done.code == 2, done.stderr
    assert "no space left on device" in done.stderr.lower()
    (disk / "filler").unlink()
    assert prompted(*JOURNALS[writer].split()).code in SAID[writer]
    if writer == "batch":
        assert rest(disk)["o.jsonl"].count(b"\n") == 6


@pytest.mark.parametrize("writer", WRITERS)
def test_a_disk_that_takes_nothing_is_found_before_any_work(
    prompted: Bench, fixed: Path, writer: str
) -> None:
    done = prompted(*WRITERS[writer].split())
    assert (done.code, done.stdout) == (2, b""), done.stderr
    assert "error[P441]" in done.stderr or "error[P573]" in done.stderr, done.stderr
    assert "read-only file system" in done.stderr.lower()
    assert rest(fixed) == {}


LONGEST = "n" * 255  # bytes that a file system takes for a name


@pytest.mark.parametrize("command", WRITERS.values(), ids=WRITERS)
def test_the_longest_name_is_a_name(prompted: Bench, command: str) -> None:
    """Where more has to stand beside it, or a name has a rule, that is said before any work."""
    (prompted.folder / "disk").mkdir()
    place, _, name = command.rpartition("/")
    longest = LONGEST[len(name) :] + name
    done = prompted(*f"{place}/{longest}".split())
    made = [path.name for path in (prompted.folder / "disk").iterdir()]
    if done.code == 2:
        assert done.stdout == b""
        assert "file name too long" in done.stderr.lower() or "error[P117]" in done.stderr
        assert made == []
    else:
        assert done.code in {0, 1}, done.stderr
        assert longest in made
