"""The hooks of .pre-commit-hooks.yaml, under pre-commit itself, on a real repository."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import yaml

from tests.review.conftest import Repository
from tests.review.test_git_setup import ROOT, run
from tests.review.test_review import HOUSE, LOCK, MANIFEST

HOOKS = {h["id"]: h for h in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


@pytest.fixture
def hooked(repository: Repository) -> Repository:
    """With the hooks installed by pre-commit, out of a repository that has only their file."""
    source = Repository(repository.root.parent / "hooks", repository.store)
    source.root.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", source.root)
    source.git("init", "--quiet")
    source.commit("hooks")
    revision = source.git("rev-parse", "HEAD").strip()
    listed = "".join(f"      - id: {name}\n" for name in HOOKS)
    repository.write(
        ".pre-commit-config.yaml",
        f"repos:\n  - repo: {source.root.as_uri()}\n    rev: {revision}\n    hooks:\n{listed}",
    )
    repository.commit("hooks")
    done = run(repository, "pre-commit", "install")
    assert done.returncode == 0, done.stdout + done.stderr
    return repository


def committed(repository: Repository) -> subprocess.CompletedProcess[str]:
    repository.git("add", "--all")
    return run(repository, "git", "commit", "--quiet", "--message", "change")


def test_a_file_in_another_form_is_formatted_and_the_commit_stopped(hooked: Repository) -> None:
    hooked.edit(MANIFEST, 'name = "tiny"', "name='tiny'")
    first = committed(hooked)
    assert (first.returncode, "files were modified by this hook" in first.stderr) == (1, True)
    assert 'name = "tiny"' in hooked.read(MANIFEST)


def test_a_change_with_its_plan_is_committed(hooked: Repository) -> None:
    hooked.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    hooked.compile(MANIFEST)
    done = committed(hooked)
    assert done.returncode == 0, done.stderr
    assert hooked.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("path", "code"), [(LOCK, "P462"), (MANIFEST, "P460")], ids=["edited", "stale"]
)
def test_a_plan_that_does_not_follow_is_not_committed(
    hooked: Repository, path: str, code: str
) -> None:
    hooked.edit(path, "max_tokens = 16", "max_tokens = 99")
    done = committed(hooked)
    assert (done.returncode, code in done.stderr) == (1, True)


def test_the_formatter_is_given_manifests_and_profiles_alone() -> None:
    wanted = re.compile(HOOKS["power-fmt"]["files"])
    assert [p for p in (MANIFEST, HOUSE, LOCK, "a.toml") if wanted.search(p)] == [MANIFEST, HOUSE]
