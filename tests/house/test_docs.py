"""Documentation: links lead somewhere, commands exist, generated parts are up to date."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from power.cli.app import VERBS, app
from power.manifest.model import Manifest
from power.manifest.profile import Profile
from power.plan.model import Plan
from tests.house.sources import ROOT, texts
from tools import reference_tables, update_docs

PAGES = sorted(name for name in texts() if name.endswith(".md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors that headings of a page get."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def shell_lines(page: str) -> list[str]:
    """The commands of a page's bash blocks, one a line."""
    blocks = [body for kind, body in FENCE.findall(texts()[page]) if kind == "bash"]
    return [line.strip() for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str) -> None:
    dead = []
    for link in LINK.findall(FENCE.sub("", texts()[page])):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        goal = (ROOT / page).parent / path if path else ROOT / page
        if not goal.exists() or (anchor and anchor not in anchors(goal.read_text("utf-8"))):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_one_title(page: str) -> None:
    assert len(re.findall(r"^# ", FENCE.sub("", texts()[page]), re.MULTILINE)) == 1


@pytest.mark.parametrize("page", [p for p in PAGES if p.startswith("docs/") and "/adr/" not in p])
def test_every_page_is_in_the_index(page: str) -> None:
    index = (ROOT / "docs/README.md").read_text("utf-8")
    assert page == "docs/README.md" or f"({page.removeprefix('docs/')})" in index


def test_make_targets_of_the_docs_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for line in shell_lines(page) + re.findall(r"`(make [^`]+)`", texts()[page])
        for target in re.findall(r"^make ([a-z]+)", line)
    }
    assert named
    assert named <= targets


@pytest.mark.parametrize("page", PAGES)
def test_verbs_and_options_of_the_docs_exist(page: str) -> None:
    helps = dict(update_docs.verbs(app, "power"))
    unknown = []
    inline = re.findall(r"`(power [^`]+)`", FENCE.sub("", texts()[page]))
    for line in shell_lines(page) + inline:
        if not re.match(r"power [a-z]", line):
            continue
        words = line.split()
        inner = " ".join(words[:3])
        verb = inner if inner in helps else " ".join(words[:2])
        options = re.findall(r"(?<=\s)--?[a-z][a-z-]*", line.partition(" > ")[0])
        if verb not in helps:
            unknown.append(line)
        else:
            unknown += [f"{verb} {o}" for o in options if not re.search(rf"{o}\b", helps[verb])]
    assert unknown == []


def test_every_verb_is_documented() -> None:
    reference = texts()["docs/reference/cli.md"]
    assert [verb for verb in VERBS if f"### power {verb}\n" not in reference] == []


def test_the_help_of_the_docs_is_what_the_command_prints() -> None:
    run = subprocess.run(
        [Path(sys.executable).with_name("power"), "run", "--help"],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"### power run\n\n```text\n{run.stdout}```\n" in texts()["docs/reference/cli.md"]


def test_the_example_of_a_diagnostic_is_what_the_command_prints(tmp_path: Path) -> None:
    manifest = (ROOT / "manifests/smollm2-135m.toml").read_text("utf-8")
    target = re.search(r"^path =.*\nbytes =.*\nsha256 =.*\n", manifest, re.MULTILINE)
    assert target is not None
    (tmp_path / "manifest.toml").write_text(
        f'schema = 1\nname = "bad"\n\n[target]\n{target.group()}\n'
        '[speculation]\nspec_mode = "prompt-lookup"\nspec_draft_max = 7\n\n'
        "[graph]\nbatch = 8\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "power", "compile", "manifest.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert f"```text\n{run.stderr}```\n" in texts()["docs/reference/cli.md"]


def test_generated_parts_are_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, "tools/update_docs.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", ""), "run `make docs`"


@pytest.mark.parametrize(
    ("page", "model"),
    [
        ("docs/reference/manifest.md", Manifest),
        ("docs/reference/manifest.md", Profile),
        ("docs/reference/plan.md", Plan),
    ],
)
def test_every_key_has_a_row(page: str, model: type[Manifest | Profile | Plan]) -> None:
    text = texts()[page]
    keys = {
        field.alias or name
        for _, section in reference_tables.sections(model)
        for name, field in section.model_fields.items()
        if reference_tables.inner_model(field.annotation) is None
    }
    assert {key for key in keys if f"| `{key}` |" not in text} == set()


def test_examples_in_toml_parse() -> None:
    blocks = [
        body for page in PAGES for kind, body in FENCE.findall(texts()[page]) if kind == "toml"
    ]
    assert blocks
    for block in blocks:
        tomllib.loads(block)


def test_the_changelog_has_the_unreleased_changes_first() -> None:
    headings = re.findall(r"^## (.+)$", texts()["CHANGELOG.md"], re.MULTILINE)
    assert headings[0] == "Unreleased"
