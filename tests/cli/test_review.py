"""`power review` and `power fmt` as commands: streams, exit codes, files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.cli.conftest import Bench, Result

Snapshot = Callable[[Result], None]


def git(bench: Bench, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=bench.folder, check=True)


@pytest.fixture
def changed(ready: Bench) -> Bench:
    """A repository whose manifest changed without its plan."""
    git(ready, "init", "-q", "--initial-branch=main")
    ready.write(".gitignore", "*.gguf\n*.pem*\nsummary.md\n")
    git(ready, "add", ".")
    git(ready, "commit", "-qm", "one")
    ready.edit("manifest.toml", "spec_draft_max = 4", "spec_draft_max = 5")
    return ready


def scrubbed(result: Result) -> Result:
    """Without the commit's name."""
    import re

    text = re.sub(rb"\b[0-9a-f]{12}\b(?!\.)", b"COMMIT", result.stdout)
    return Result(result.arguments, result.code, text, result.stderr)


@pytest.mark.parametrize("fmt", ["human", "markdown", "github"])
def test_a_stale_plan(changed: Bench, snapshot_of: Snapshot, fmt: str) -> None:
    snapshot_of(scrubbed(changed("review", "--base", "main", "--format", fmt)))


def test_json(changed: Bench) -> None:
    found = changed("review", "--base", "main", "--format", "json", "--fail-on", "shape")
    assert found.code == 1
    assert [d["code"] for d in found.json["diagnostics"]] == ["P460", "P456"]
    assert found.json["schema"] == "power.review.v1"
    assert found.json["plans"] == [
        {"path": "plan.lock", "manifest": "manifest.toml", "state": "stale"}
    ]


def test_a_good_change_passes_and_its_summary_is_appended(changed: Bench) -> None:
    assert changed("compile", "manifest.toml").code == 0
    changed.write("summary.md", "# Before\n")
    found = changed("review", "--base", "main", "--summary", "summary.md", "--format", "github")
    assert (found.code, found.stdout, found.stderr) == (0, b"", "")
    summary = (changed.folder / "summary.md").read_text()
    assert summary.startswith("# Before\n<!-- power review -->\n## Power review: no defects")


def test_outside_of_a_repository(bench: Bench) -> None:
    found = bench(
        "review", "--base", "main", env={"GIT_CEILING_DIRECTORIES": str(bench.folder.parent)}
    )
    assert (found.code, "P452" in found.stderr) == (2, True)


def test_fmt_checks_then_writes_then_is_content(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.edit("manifest.toml", 'name = "tiny"', "# my name\nname  =  'tiny'")
    mode = (bench.folder / "manifest.toml").stat().st_mode
    snapshot_of(bench("fmt", "--check", "manifest.toml"))
    assert bench("fmt", "manifest.toml").code == 0
    assert (bench.folder / "manifest.toml").stat().st_mode == mode
    assert '# my name\nname = "tiny"\n' in (bench.folder / "manifest.toml").read_text()
    again = bench("fmt", "--check", "manifest.toml", "--format", "json")
    assert (again.code, again.json["changed"]) == (0, [])


def test_fmt_reads_standard_input(bench: Bench) -> None:
    text = (bench.folder / "manifest.toml").read_text()
    found = bench("fmt", "-", stdin=text.replace(" = ", "=").encode())
    assert (found.code, found.stdout.decode()) == (
        0,
        bench("fmt", "-", stdin=text.encode()).stdout.decode(),
    )


def test_fmt_writes_the_good_ones_and_names_the_bad(ready: Bench) -> None:
    ready.edit("manifest.toml", " = ", "=")
    found = ready("fmt", "manifest.toml", "plan.lock", "absent.toml")
    assert (found.code, found.stderr.count("error[")) == (2, 2)
    assert "name = " in (ready.folder / "manifest.toml").read_text()
