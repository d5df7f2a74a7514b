"""`power git setup` and the merge driver, in git's own hands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.review.conftest import Repository
from tests.review.test_review import HOUSE, LOCK, MANIFEST

ROOT = Path(__file__).parents[2]


def run(
    repository: Repository, *command: str, store: bool = True, **extra: str
) -> subprocess.CompletedProcess[str]:
    """A command in the repository, with this Power first on PATH."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POWER_", "GITHUB_"))}
    binaries = Path(sys.executable).parent
    environment |= {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(repository.store),
        "GIT_AUTHOR_NAME": "t",
        "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "t",
        "GIT_COMMITTER_EMAIL": "t@example.org",
        "POWER_ARTIFACTS": str(repository.store) if store else "",
        **extra,
    }
    return subprocess.run(
        command, cwd=repository.root, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def installed(repository: Repository) -> Repository:
    """With attributes and config, and plans compiled by the installed engine."""
    done = run(repository, "power", "git", "setup")
    assert done.returncode == 0, done.stderr
    assert run(repository, "power", "compile", MANIFEST).returncode == 0
    repository.commit("set up")
    repository.git("branch", "--force", "main")
    return repository


def test_setup_says_what_it_writes_and_writes_it_once(repository: Repository) -> None:
    first = run(repository, "power", "git", "setup")
    assert first.stderr.count("wrote  ") == 5
    attributes = repository.read(".gitattributes")
    assert "manifests/*.lock -text diff=power merge=power\n" in attributes
    config = repository.git("config", "--local", "--list")
    assert "merge.power.driver=power git merge %O %A %B %L %P" in config
    again = run(repository, "power", "git", "setup")
    assert (again.stderr.count("wrote  "), again.stderr.count("there  ")) == (0, 5)
    assert repository.read(".gitattributes") == attributes


def test_setup_keeps_bytes_that_are_no_text(repository: Repository) -> None:
    file = repository.root / ".gitattributes"
    file.write_bytes(b"# caf\xe9\n")
    assert run(repository, "power", "git", "setup").returncode == 0
    assert file.read_bytes().startswith(b"# caf\xe9\n\n# Plans")


def test_setup_is_about_locks(repository: Repository) -> None:
    """A plan that is a test's input under another name is none of git's business."""
    repository.write("tests/a-plan.toml", repository.read(LOCK))
    run(repository, "power", "git", "setup")
    assert "a-plan" not in repository.read(".gitattributes")


def test_setup_keeps_what_stands_in_attributes(repository: Repository) -> None:
    repository.write(".gitattributes", "*.png binary")
    repository.write("else where/odd.lock", repository.read(LOCK))
    run(repository, "power", "git", "setup")
    lines = repository.read(".gitattributes").split("\n")
    assert lines[0] == "*.png binary"
    assert '"/else where/odd.lock" -text diff=power merge=power' in lines
    assert run(repository, "power", "git", "setup").stderr.count("wrote  ") == 0


def test_git_shows_plans_as_power_does(installed: Repository) -> None:
    installed.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    run(installed, "power", "compile", MANIFEST)
    shown = run(installed, "git", "diff", "--", LOCK).stdout
    assert "-  output        at most 16 tokens" in shown
    assert "+  output        at most 17 tokens" in shown


def two_branches(installed: Repository, other: tuple[str, str], mine: tuple[str, str]) -> None:
    """A branch `other` and the branch `change`, each with one edit of the manifest, compiled."""
    for branch, (old, new) in (("other", other), ("change", mine)):
        installed.git("checkout", "--quiet", "-B", branch, "main")
        installed.edit(MANIFEST, old, new)
        assert run(installed, "power", "compile", MANIFEST).returncode == 0
        installed.commit(branch)


APART = (("max_tokens = 16", "max_tokens = 17"), ("context = 64", "context = 63"))


def test_a_conflicted_plan_is_compiled_again(installed: Repository) -> None:
    two_branches(installed, *APART)
    done = run(installed, "git", "merge", "--no-edit", "other")
    assert done.returncode == 0, done.stdout + done.stderr
    plan = installed.read(LOCK)
    assert ("max_tokens = 17" in plan, "context = 63" in plan) == (True, True)
    assert run(installed, "power", "compile", MANIFEST, "--check").returncode == 0


def test_a_profile_that_changed_on_the_other_branch_is_merged_too(installed: Repository) -> None:
    installed.git("checkout", "--quiet", "-B", "other", "main")
    installed.edit(HOUSE, "spec_draft_max = 6", "spec_draft_max = 5")
    assert run(installed, "power", "compile", MANIFEST).returncode == 0
    installed.commit("other")
    installed.git("checkout", "--quiet", "-B", "change", "main")
    installed.edit(MANIFEST, *APART[0])
    assert run(installed, "power", "compile", MANIFEST).returncode == 0
    installed.commit("change")
    done = run(installed, "git", "merge", "--no-edit", "other")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "spec_draft_max = 5" in installed.read(LOCK)
    assert run(installed, "power", "compile", MANIFEST, "--check").returncode == 0


def test_a_rebase_compiles_again_too(installed: Repository) -> None:
    two_branches(installed, *APART)
    done = run(installed, "git", "rebase", "other")
    assert done.returncode == 0, done.stdout + done.stderr
    assert run(installed, "power", "compile", MANIFEST, "--check").returncode == 0


@pytest.mark.parametrize("store", [True, False])
def test_what_cannot_be_compiled_is_left_as_a_clear_conflict(
    installed: Repository, store: bool
) -> None:
    both = (("max_tokens = 16", "max_tokens = 17"), ("max_tokens = 16", "max_tokens = 18"))
    two_branches(installed, *(both if store else APART))
    done = run(installed, "git", "merge", "--no-edit", "other", store=store)
    assert done.returncode == 1
    assert ("P470" if store else "P221") in done.stderr
    assert "CONFLICT (content): Merge conflict in manifests/tiny.lock" in done.stdout
    shown = run(installed, "power", "show", LOCK)
    assert (shown.returncode, "P431" in shown.stderr) == (2, True)
    if not store:
        assert run(installed, "power", "compile", MANIFEST).returncode == 0
        assert "<<<<<<<" not in installed.read(LOCK)
