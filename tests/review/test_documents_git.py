"""`REV:path`: read from a real repository, never as an option, with a word on what is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from power.diagnostics import Diagnostic, PowerError
from power.review.diff import diff
from power.review.documents import load_document

PROFILE = 'schema = 1\nname = "p"\nsummary = "{summary}"\n'


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits of one profile, in a folder that is the working folder."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "repository"
    (folder / "profiles").mkdir(parents=True)
    git(folder.parent, "init", "--quiet", "--initial-branch=main", str(folder))
    for summary in ("first", "second"):
        (folder / "profiles/p.toml").write_text(PROFILE.format(summary=summary), "utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", summary)
    monkeypatch.chdir(folder)
    return folder


def refusal(spec: str) -> Diagnostic:
    with pytest.raises(PowerError) as caught:
        load_document(spec)
    (found,) = caught.value.diagnostics
    return found


@pytest.mark.parametrize(
    ("revision", "summary"),
    [("HEAD", "second"), ("main", "second"), ("HEAD~1", "first"), ("main^{/first}", "first")],
)
def test_a_file_of_a_commit(repository: Path, revision: str, summary: str) -> None:
    assert load_document(f"{revision}:profiles/p.toml").content["summary"] == summary


def test_a_commit_against_the_working_folder(repository: Path) -> None:
    found = diff(load_document("HEAD~1:profiles/p.toml"), load_document("profiles/p.toml"))
    assert [(c.path, c.old, c.new) for c in found.changes] == [("summary", "first", "second")]


def test_a_path_from_the_working_folder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "profiles")
    assert load_document("HEAD:./p.toml").content["name"] == "p"
    assert load_document("HEAD:profiles/p.toml").content["name"] == "p"
    assert refusal("HEAD:p.toml").code == "P454"


def test_a_file_of_that_name_wins(repository: Path) -> None:
    (repository / "HEAD:profiles").mkdir()
    (repository / "HEAD:profiles/p.toml").write_text(PROFILE.format(summary="file"), "utf-8")
    assert load_document("HEAD:profiles/p.toml").content["summary"] == "file"


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("nowhere:profiles/p.toml", "P453"),
        ("HEAD~9:profiles/p.toml", "P453"),
        ("HEAD:profiles/q.toml", "P454"),
        ("HEAD:profiles", "P454"),
        (":profiles/p.toml", "P455"),
        ("HEAD:", "P455"),
        ("-h:profiles/p.toml", "P455"),
        ("--output=x:profiles/p.toml", "P455"),
        ("HEAD\n:profiles/p.toml", "P455"),
        ("HEAD:profiles/p\x1b.toml", "P455"),
        ("nothing.toml", "P101"),
    ],
)
def test_what_git_cannot_give(repository: Path, spec: str, code: str) -> None:
    found = refusal(spec)
    assert found.code == code
    assert sorted(path.name for path in repository.iterdir()) == [".git", "profiles"]


def test_a_large_file_is_refused_before_it_is_read(repository: Path) -> None:
    (repository / "large.toml").write_text("#" * (2 << 20), "utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "large")
    assert refusal("HEAD:large.toml").code == "P103"


def test_a_broken_file_of_a_commit_is_placed_in_it(repository: Path) -> None:
    (repository / "profiles/p.toml").write_text("schema = \n", "utf-8")
    git(repository, "commit", "--quiet", "-am", "broken")
    found = refusal("HEAD:profiles/p.toml")
    assert (found.code, found.spans[0].file) == ("P109", "HEAD:profiles/p.toml")


def test_outside_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.delenv("GIT_DIR", raising=False)
    (tmp_path / "alone").mkdir()
    monkeypatch.chdir(tmp_path / "alone")
    assert refusal("HEAD:profiles/p.toml").code == "P452"


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = refusal("HEAD:profiles/p.toml")
    assert (found.code, found.hint) == ("P452", "install git, or compare two files")
