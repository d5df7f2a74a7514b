"""Who the engine says it is, with and without being loaded."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import llama_cpp
import pytest

from power.backends.interface import EngineFacts
from power.backends.llamacpp import BACKEND, identity
from power.backends.registry import backend as find
from power.diagnostics import PowerError


def test_describing_loads_no_native_code() -> None:
    code = (
        "import sys; from power.backends.llamacpp import BACKEND;"
        "print(BACKEND.describe().version);"
        "bad = {'llama_cpp', 'numpy', 'pydantic', 'psutil'} & set(sys.modules); sys.exit(bool(bad))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0.3.36")


def test_the_entry_point_names_this_backend() -> None:
    assert find("llamacpp") is BACKEND


def test_capabilities_say_why_not() -> None:
    facts = BACKEND.describe()
    assert isinstance(facts, EngineFacts)
    runs = {name for name, reason in facts.capabilities.items() if reason is None}
    assert runs >= {"off", "prompt-lookup", "ngram-context", "draft-model", "mtp"}
    assert all("does not" in r for r in facts.capabilities.values() if r is not None)


def test_the_loaded_engine_is_the_described_one(lab: Any) -> None:
    facts, found = BACKEND.describe(), lab.open().identity
    assert (found.package, found.version) == (facts.package, facts.version)
    assert found.llama_cpp == facts.llama_cpp
    assert found.system_info
    assert any("CPU" in device for device in found.devices)


def test_every_mapped_library_has_the_digest_of_its_file(lab: Any) -> None:
    libraries = lab.open().identity.libraries
    folder = Path(llama_cpp.__file__).parent / "lib"
    assert any(name.startswith("libllama.so") for name in libraries)
    assert any(name.startswith("libggml-cpu") for name in libraries)
    for name, digest in libraries.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_a_replaced_library_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "libggml-base.so.0"
    library.write_bytes(b"new")
    for path, inode in ((library, library.stat().st_ino + 1), (tmp_path / "libllama.so", 7)):
        maps = f"7f00-7f01 r-xp 00000000 fe:01 {inode}      {path}\n"
        with pytest.raises(PowerError) as caught:
            identity._mapped_libraries(maps)
        assert caught.value.diagnostics[0].code == "P524"


def test_only_the_engines_own_libraries_are_counted(tmp_path: Path) -> None:
    library = tmp_path / "libllama.so.0.5.0"
    library.write_bytes(b"code")
    inode = library.stat().st_ino
    maps = (
        f"7f00-7f01 r-xp 00000000 fe:01 {inode}      {library}\n"
        f"7f01-7f02 rw-p 00001000 fe:01 {inode}      {library}\n"
        "7f02-7f03 r-xp 00000000 fe:01 12 /lib/x86_64-linux-gnu/libc.so.6\n"
        "7f03-7f04 rw-p 00000000 00:00 0 \n"
        "7f04-7f05 rw-p 00000000 00:00 0          [stack]\n"
    )
    digest = hashlib.sha256(b"code").hexdigest()
    assert identity._mapped_libraries(maps) == {"libllama.so.0.5.0": digest}


@pytest.mark.parametrize(
    ("installed", "code"), [(None, "P520"), ("0.3.35", "P521"), ("0.3.36", None)]
)
def test_only_known_versions_are_described(
    monkeypatch: pytest.MonkeyPatch, installed: str | None, code: str | None
) -> None:
    def version(package: str) -> str:
        assert package == "llama-cpp-python"
        if installed is None:
            raise metadata.PackageNotFoundError
        return installed

    monkeypatch.setattr(metadata, "version", version)
    if code is None:
        assert BACKEND.describe().llama_cpp == "0.5.0-dev"
        return
    with pytest.raises(PowerError) as caught:
        BACKEND.describe()
    assert caught.value.diagnostics[0].code == code
