"""A folder with a tiny model, and the `power` command run in it as a process."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.published import own_problems
from tools import build_fixtures

CORPUS = Path(__file__).parents[1] / "vectors" / "corpus" / "gguf"

MANIFEST = """\
schema = 1
name = "tiny"

[target]
path = "target.gguf"
bytes = {bytes}
sha256 = "{sha256}"

[speculation]
spec_mode = "prompt-lookup"
spec_draft_max = 4

[graph]
batch = 8
context = {context}
prefill_batch = 64
shape = "natural"

[host]
threads = 1

[sampling]
temperature = 0.0
max_tokens = 48
"""


@dataclass(frozen=True)
class Result:
    """How a command ended. `str` is what snapshots hold."""

    arguments: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    def __str__(self) -> str:
        shown = " ".join(a if " " not in a else f"'{a}'" for a in self.arguments)
        return (
            f"$ power {shown}\nexit {self.code}\n--- stdout\n{self.stdout.decode()}"
            f"--- stderr\n{self.stderr}"
        )


@dataclass(frozen=True)
class Bench:
    """A working folder; calling it runs `power` there, behind the words of `through`."""

    folder: Path
    through: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("POWER_")}
        return kept | {"POWER_KEY": str(self.folder / "key.pem"), "PYTHONUTF8": "0"}

    def __call__(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> Result:
        done = subprocess.run(
            [*self.through, sys.executable, "-m", "power", *arguments],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            env=self.environment() | dict(env or {}),
            timeout=300,
            check=False,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        result = Result(arguments, done.returncode, done.stdout, self._scrub(done.stderr.decode()))
        if done.stdout.startswith(b'{\n  "schema"'):
            assert own_problems(result.json) == []
        return result

    def _scrub(self, text: str) -> str:
        text = text.replace(str(self.folder), "FOLDER")
        text = re.sub(r"\d{8}T\d{6}Z-(\S+)-[0-9a-f]{12}", r"TIME-\1-ID", text)
        return re.sub(r"[A-Za-z0-9+/]{43}=", "KEYID", text)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path

    def document(self, name: str) -> Any:
        """A JSON file, which holds to its published schema."""
        found = json.loads((self.folder / name).read_bytes())
        assert own_problems(found) == []
        return found

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace `old`, which has to be there, in a file."""
        text = (self.folder / name).read_text("utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    @property
    def receipts(self) -> list[Path]:
        return sorted(self.folder.glob("receipts/*"))


def manifest_for(target: Path, context: int = 128) -> str:
    data = target.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return MANIFEST.format(bytes=len(data), sha256=digest, context=context)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """`target.gguf` and `manifest.toml` in a folder of their own."""
    shutil.copy(CORPUS / "good-v3-target.gguf", tmp_path / "target.gguf")
    made = Bench(tmp_path)
    made.write("manifest.toml", manifest_for(tmp_path / "target.gguf"))
    return made


@pytest.fixture
def ready(bench: Bench) -> Bench:
    """The same with a key and a compiled plan."""
    return compiled(bench)


@pytest.fixture
def brief(tmp_path: Path) -> Bench:
    """As `ready`, with a model that says `sea` behind a colon, and ends: no limit cuts it."""
    (model,) = build_fixtures.build(tmp_path, ["brief"])["brief"]
    target = model.rename(tmp_path / "target.gguf")
    made = Bench(tmp_path)
    made.write("manifest.toml", manifest_for(target))
    return compiled(made)


def compiled(bench: Bench) -> Bench:
    """`bench` with a key and a compiled plan."""
    assert bench("key", "new").code == 0
    assert bench("compile", "manifest.toml").code == 0
    return bench


def to_tune(bench: Bench, name: str = "open.toml") -> None:
    """Write a manifest that leaves what `power tune` decides to its profile."""
    text = (bench.folder / "manifest.toml").read_text("utf-8")
    text = text.replace('[speculation]\nspec_mode = "prompt-lookup"\nspec_draft_max = 4\n', "")
    bench.write(name, text.replace("batch = 8\n", ""))


@pytest.fixture
def snapshot_of(snapshot: Any) -> Callable[[Result], None]:
    """Compare a result with its snapshot."""

    def compare(result: Result) -> None:
        assert str(result) == snapshot

    return compare
