"""`power git setup`, the merge driver, the action and the hooks, in git's own hands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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


def action(repository: Repository, base: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    temp = repository.store
    return run(
        repository,
        str(ROOT / "tools/review_action.sh"),
        store=False,
        RUNNER_TEMP=str(temp),
        GITHUB_OUTPUT=str(temp / "output"),
        GITHUB_STEP_SUMMARY=str(temp / "summary"),
        POWER_REVIEW_BASE=base,
        **inputs,
    )


def test_the_action_on_a_tampered_plan(repository: Repository) -> None:
    repository.edit(LOCK, "max_tokens = 16", "max_tokens = 99")
    repository.commit("tampered")
    done = action(repository, "main")
    assert done.returncode == 1
    assert re.search(r"^::error file=manifests/tiny\.lock,line=\d+,.*title=P462::", done.stdout)
    assert "defects=1\n" in (repository.store / "output").read_text()
    for name in ("summary", "power-review.md"):
        assert "**P462**" in (repository.store / name).read_text()


def test_the_action_on_a_good_change_and_a_policy(repository: Repository) -> None:
    repository.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    repository.compile(MANIFEST)
    repository.commit("more")
    assert action(repository, "main").returncode == 0
    strict = action(repository, "main", POWER_REVIEW_FAIL_ON="identity output")
    assert (strict.returncode, "title=P456" in strict.stdout) == (1, True)
    apart = action(
        repository, "main", POWER_REVIEW_FAIL_ON="output", POWER_REVIEW_PATHS=":!manifests"
    )
    assert apart.returncode == 0


@pytest.mark.parametrize(
    ("base", "words"),
    [("", "give the input"), ("0" * 40, "give the input"), ("a" * 40, "fetch-depth: 0")],
)
def test_the_action_without_a_base(repository: Repository, base: str, words: str) -> None:
    done = action(repository, base)
    assert (done.returncode, words in done.stdout) == (2, True)


def test_the_action_runs_that_script_and_asks_for_nothing() -> None:
    found = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    (step,) = found["runs"]["steps"]
    assert step["run"] == '"$GITHUB_ACTION_PATH/tools/review_action.sh"'
    assert "${{" not in step["run"]


def test_the_hooks_run_and_see_what_they_are_for(repository: Repository) -> None:
    hooks = {h["id"]: h for h in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    wanted = re.compile(hooks["power-fmt"]["files"])
    assert [bool(wanted.search(path)) for path in (MANIFEST, HOUSE, LOCK, "a.toml")] == [
        True,
        True,
        False,
        False,
    ]
    repository.edit(MANIFEST, 'name = "tiny"', "name='tiny'")
    assert run(repository, *hooks["power-fmt"]["entry"].split(), MANIFEST).returncode == 0
    assert 'name = "tiny"' in repository.read(MANIFEST)
    assert run(repository, *hooks["power-review"]["entry"].split()).returncode == 0
    repository.edit(LOCK, "max_tokens = 16", "max_tokens = 99")
    assert run(repository, *hooks["power-review"]["entry"].split()).returncode == 1
