"""A git repository with manifests, profiles and plans that were really compiled."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from power.plan.compile import compile_manifest, default_lock_path, write_lock
from power.review.review import Review, review

CORPUS = Path(__file__).parents[1] / "vectors" / "corpus"
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
PROFILE = """\
schema = 1
name = "house"
summary = "what this house runs"

[speculation]
spec_mode = "prompt-lookup"
spec_draft_max = 6

[graph]
batch = 12
"""


@dataclass(frozen=True)
class Engine:
    """Engine facts enough to compile with."""

    package: str = "llama-cpp-python"
    version: str = "0.3.36"
    llama_cpp: str = "0.5.0-dev"
    capabilities: Mapping[str, str | None] = field(
        default_factory=lambda: dict.fromkeys(
            ("off", "prompt-lookup", "ngram-context", "draft-model")
        )
    )
    grammar_fault: Callable[[str], str | None] = lambda _text: None


@dataclass(frozen=True)
class Repository:
    """A work tree whose artifacts lie outside of it, as in a CI that has none."""

    root: Path
    store: Path

    def git(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["git", "-C", self.root, *IDENTITY, *arguments],
            check=check,
            capture_output=True,
            text=True,
        )
        return done.stdout + done.stderr

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)

    def read(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    def edit(self, path: str, old: str, new: str) -> None:
        assert old in self.read(path)
        self.write(path, self.read(path).replace(old, new))

    def manifest(self, name: str, profile: str | None) -> str:
        """The path of a new manifest for the target in the store."""
        data = (self.store / "t.gguf").read_bytes()
        reference = "" if profile is None else f'profile = "{profile}"\n'
        path = f"manifests/{name}.toml"
        self.write(
            path,
            f'schema = 1\nname = "{name}"\n{reference}\n[target]\npath = "t.gguf"\n'
            f"bytes = {len(data)}\n"
            f'sha256 = "{hashlib.sha256(data).hexdigest()}"\n\n'
            "[graph]\ncontext = 64\n\n[sampling]\nmax_tokens = 16\n",
        )
        return path

    def compile(self, path: str, profile: str | None = None, lock: str | None = None) -> str:
        """Compile and write the plan; its path."""
        manifest = self.root / path
        compiled = compile_manifest(manifest, profile=profile, roots=[self.store], engine=Engine())
        place = default_lock_path(manifest) if lock is None else self.root / lock
        write_lock(place, compiled)
        return place.relative_to(self.root).as_posix()

    def review(self, base: str = "main", *only: str) -> Review:
        return review(self.root, base, only)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """On a branch `change`, behind one commit on `main`: a profile, a manifest and its plan."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    made = Repository(tmp_path / "repository", tmp_path / "store")
    made.root.mkdir()
    made.store.mkdir()
    shutil.copyfile(CORPUS / "gguf/good-v3-target.gguf", made.store / "t.gguf")
    made.git("init", "--quiet", "--initial-branch=main")
    made.write("manifests/profiles/house.toml", PROFILE)
    made.write("README.md", "# House\n")
    made.write("pyproject.toml", '[project]\nname = "other"\n')
    made.compile(made.manifest("tiny", "profiles/house.toml"))
    made.commit("one")
    made.git("checkout", "--quiet", "-b", "change")
    return made
