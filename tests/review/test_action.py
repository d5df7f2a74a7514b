"""What action.yml runs, on a real repository, with the files that a runner gives it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from power.review.annotations import MOST
from power.review.review_markdown import COMMENT_LIMIT, MARK, SUMMARY_LIMIT
from tests.review.conftest import Repository
from tests.review.test_git_setup import ROOT, run
from tests.review.test_review import LOCK, MANIFEST

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
GH = """\
#!/usr/bin/env bash
# gh, as far as the script asks: comments that are there, and what is sent.
printf '%s\\n' "${*//$'\\n'/ }" >>"$GH_LOG"
case "$*" in
  *--paginate*) cat "$GH_COMMENTS" ;;
  *body=@-*) cat >"$GH_BODY" ;;
esac
[[ -z ${GH_FAILS:-} ]]
"""


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


def test_more_defects_than_a_runner_shows(repository: Repository) -> None:
    """Annotations say how many are left, and the summary has them all, within its limit."""
    text = repository.read(LOCK).replace("max_tokens = 16", "max_tokens = 99")
    for number in range(MOST + 3):
        repository.write(f"manifests/n{number}.lock", text)
    repository.commit("many")
    done = action(repository, "main")
    errors = [line for line in done.stdout.splitlines() if line.startswith("::error")]
    assert (done.returncode, len(errors)) == (1, MOST)
    assert "4 more errors are in the summary" in errors[-1]
    summary = (repository.store / "summary").read_text()
    assert summary.count("**P462**") == MOST + 3
    assert len(summary.encode()) <= SUMMARY_LIMIT
    assert len((repository.store / "power-review.md").read_bytes()) <= COMMENT_LIMIT
    assert f"defects={MOST + 3}\n" in (repository.store / "output").read_text()


def test_what_earlier_steps_wrote_stays(repository: Repository) -> None:
    for name in ("summary", "output"):
        (repository.store / name).write_text("before=1\n")
    assert action(repository, "main").returncode == 0
    for name in ("summary", "output"):
        assert (repository.store / name).read_text().startswith("before=1\n")


def comment(
    repository: Repository, *comments: tuple[int, str, bool], number: str = "7", fails: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the step that comments, with a `gh` that knows these comments (id, text, ours)."""
    binaries = repository.store / "bin"
    binaries.mkdir(exist_ok=True)
    gh = binaries / "gh"
    gh.write_text(GH)
    gh.chmod(0o755)
    nodes = [
        {"databaseId": number, "body": text, "viewerDidAuthor": ours}
        for number, text, ours in comments
    ]
    there = "".join(json.dumps(node) + "\n" for node in nodes)
    (repository.store / "comments").write_text(there)
    review = repository.store / "power-review.md"
    review.write_text(f"{MARK}\n## Power review\n")
    bash = shutil.which("bash")
    assert bash is not None
    return run(
        repository,
        bash,
        "-c",
        f'PATH="{binaries}:$PATH" exec "{ROOT}/tools/comment_action.sh"',
        GITHUB_REPOSITORY="o/r",
        POWER_REVIEW_NUMBER=number,
        POWER_REVIEW_COMMENT=str(review),
        GH_TOKEN="t",
        GH_LOG=str(repository.store / "log"),
        GH_COMMENTS=str(repository.store / "comments"),
        GH_BODY=str(repository.store / "body"),
        GH_FAILS=fails,
    )


def log(repository: Repository) -> list[str]:
    return (repository.store / "log").read_text().splitlines()


def test_the_first_comment_is_new(repository: Repository) -> None:
    """That of somebody else is not touched, however it begins."""
    done = comment(
        repository,
        (1, "Nice!", False),
        (2, f"I quote:\n> {MARK}", True),
        (3, f"{MARK}\n## Power review: no defects", False),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "-field owner=o --raw-field name=r --field number=7" in log(repository)[0]
    assert log(repository)[-1] == "api --method POST repos/o/r/issues/7/comments --field body=@-"
    assert (repository.store / "body").read_text().startswith(MARK)


def test_the_next_one_takes_its_place(repository: Repository) -> None:
    done = comment(repository, (1, f"{MARK}\nmine", False), (5, f"{MARK}\nold", True))
    assert done.returncode == 0
    assert log(repository)[-1] == "api --method PATCH repos/o/r/issues/comments/5 --field body=@-"


def test_no_pull_request_and_no_right_to_write_are_told_and_no_defect(
    repository: Repository,
) -> None:
    assert "::notice" in comment(repository, number="").stdout
    refused = comment(repository, fails="1")
    assert (refused.returncode, "::warning" in refused.stdout) == (0, True)


class TestTheFile:
    """action.yml: what it takes is used, what it runs is here, and text is never script."""

    def test_inputs_and_outputs_are_those_that_are_used(self) -> None:
        used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(STEPS)))
        assert used == set(ACTION["inputs"])
        assert all(isinstance(i["description"], str) for i in ACTION["inputs"].values())
        ids = {step["id"] for step in STEPS if "id" in step}
        values = [output["value"] for output in ACTION["outputs"].values()]
        found = [re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}", v) for v in values]
        assert {match[1] for match in found if match is not None} <= ids
        written = set(re.findall(r'echo "(\w+)=', self._script("review_action.sh")))
        assert [match and match[2] for match in found] == list(ACTION["outputs"])
        assert written == set(ACTION["outputs"])

    @pytest.mark.parametrize("step", STEPS, ids=lambda step: step["id"])
    def test_a_step_runs_a_script_of_this_repository(self, step: dict[str, Any]) -> None:
        assert set(step) <= {"id", "if", "shell", "env", "run"}  # no action of anybody else
        assert step["shell"] == "bash"
        named = re.fullmatch(r'"\$GITHUB_ACTION_PATH/tools/(\w+\.sh)"', step["run"])
        assert named is not None
        assert (ROOT / "tools" / named[1]).stat().st_mode & 0o111
        read = set(re.findall(r"\b(POWER_REVIEW_\w+)", self._script(named[1])))
        assert read == {name for name in step["env"] if name != "GH_TOKEN"}

    def test_nothing_is_posted_unless_it_is_asked_for(self) -> None:
        assert ACTION["inputs"]["post-comment"]["default"] == "false"
        (step,) = (step for step in STEPS if step["id"] == "comment")
        assert step["if"] == "${{ always() && inputs.post-comment == 'true' }}"
        assert ["GH_TOKEN" in s["env"] for s in STEPS] == [s is step for s in STEPS]

    def _script(self, name: str) -> str:
        return (ROOT / "tools" / name).read_text("utf-8")
