"""Every command of the documentation is run: page by page, block after block, in a scratch folder.

A page says where its blocks run: `<!-- run in: tiny -->` (a folder with a tiny `model.gguf`),
`brief` (one that ends its texts), `split` (one of two shards), `repository` (a git repository with
the manifests and SmolLM2) or `demo` (the same after `make demo`); or after which page:
`<!-- run after: PAGE -->`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from power.receipt.keys import create
from tests.house.sources import ROOT, texts
from tools import build_fixtures
from tools.run_tutorial import FENCE, lacking, run, steps

CORPUS = ROOT / "tests/vectors/corpus"
MARKDOWN = {name: text for name, text in texts().items() if name.endswith(".md")}


def marked(kind: str) -> dict[str, str]:
    """What pages say behind `run KIND:`, by page."""
    found = ((name, re.search(rf"<!-- run {kind}: (\S+) -->", t)) for name, t in MARKDOWN.items())
    return {name: match[1] for name, match in found if match is not None}


AFTER = marked("after")
PAGES = {name: kind for name, kind in marked("in").items() if name not in AFTER.values()} | {
    name: marked("in")[before] for name, before in AFTER.items()
}
# Pages that something else runs: who does, and the words by which it names them.
ELSEWHERE = {
    "docs/how-to/verify-a-receipt-without-power.md": (
        "tests/house/test_how_to.py",
        "docs/how-to/verify-a-receipt-without-power.md",
    ),
    "docs/tutorial/first-receipt.md": (".ci/run", "tools/run_tutorial.py"),
}


def scratch(kind: str, folder: Path) -> dict[str, str]:
    """Fill `folder` for pages of a kind; the variables that their commands get."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    if kind == "tiny":
        shutil.copy(CORPUS / "gguf/good-v3-target.gguf", folder / "model.gguf")
    elif kind == "brief":
        (model,) = build_fixtures.build(folder, [kind])[kind]
        model.rename(folder / "model.gguf")
    elif kind == "split":
        for number in (1, 2):
            name = f"-0000{number}-of-00002.gguf"
            shutil.copy(CORPUS / f"split/good-split-2/m{name}", folder / f"model{name}")
    elif kind in {"repository", "demo"}:
        store = Path(os.environ.get("POWER_ARTIFACTS", ROOT / "artifacts"))
        if not (store / "SmolLM2-135M-Instruct.Q4_1.gguf").is_file():
            pytest.skip("SmolLM2 is not here; tools/fetch_models.py smollm2-135m fetches it")
        for name in ("manifests", "profiles"):
            shutil.copytree(ROOT / name, folder / name)
        (folder / "artifacts").symlink_to(store.resolve())
        (folder / ".gitignore").write_text("artifacts\n")
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        for command in (
            ("init", "-q", "--initial-branch=main"),
            ("add", "."),
            ("commit", "-qm", "1"),
        ):
            subprocess.run(["git", *identity, *command], cwd=folder, check=True)
    if kind == "demo":
        (folder / "receipts").mkdir()
        create(folder / "keys/demo.pem")
    return environment


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    found = [*steps(MARKDOWN.get(AFTER.get(page, ""), "")), *steps(MARKDOWN[page])]
    code, outputs = run(found, tmp_path, scratch(PAGES[page], tmp_path))
    assert code == 0, outputs[-1]
    for step, output in zip(found, outputs, strict=True):
        assert lacking(output, step.expected) is None, output


def uncovered(name: str, text: str) -> list[str]:
    """The blocks of commands that nothing runs."""
    if name in PAGES or name in AFTER.values() or name in ELSEWHERE:
        return []
    return [
        body
        for block in FENCE.finditer(text)
        if (body := block["body"]) and block["kind"] in SHELLS and not block["skip"]
        if not all(line.startswith(OURS) for line in body.splitlines())
    ]


SHELLS = {"bash", "sh", "shell", "console", "zsh"}
OURS = ("make ", ".venv/bin/pytest ")
"""What runs the checks themselves; other tests hold that targets and tests of pages exist."""


@pytest.mark.parametrize("page", MARKDOWN)
def test_every_command_of_a_page_is_run(page: str) -> None:
    assert uncovered(page, MARKDOWN[page]) == []


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_a_page_that_nobody_runs_is_told(shell: str) -> None:
    page = f"# Page\n\n```{shell}\npower doctor\n```\n\n```bash\nmake test\n```\n"
    assert uncovered("docs/new.md", page) == ["power doctor\n"]


def test_commands_of_a_page_that_is_run_are_bash() -> None:
    """The runner knows no other name for them, and would leave them out without a word."""
    others = [
        name
        for name, text in MARKDOWN.items()
        if any(block["kind"] in SHELLS - {"bash"} for block in FENCE.finditer(text))
    ]
    assert others == []


def test_what_runs_a_page_elsewhere_names_it() -> None:
    assert [p for p, (who, word) in ELSEWHERE.items() if word not in (ROOT / who).read_text()] == []


def test_tests_that_pages_name_exist() -> None:
    named = {
        path
        for text in MARKDOWN.values()
        for path in re.findall(r"\btests/[\w/.]*\w(?:::\w+)?", text)
    }
    gone = []
    for path in named:
        file, _, function = path.partition("::")
        found = ROOT / file
        if not found.exists() or (function and f"def {function}(" not in found.read_text()):
            gone.append(path)
    assert gone == []


def test_few_blocks_are_not_run() -> None:
    skipped = [
        (name, block["skip"])
        for name, text in MARKDOWN.items()
        for block in FENCE.finditer(text)
        if block["skip"]
    ]
    assert len(skipped) <= 3, skipped


def test_the_steps_of_the_ci_page_are_the_commands_that_it_ran() -> None:
    page = MARKDOWN["docs/how-to/use-in-ci.md"]
    ran = {line for step in steps(page) for line in step.script.splitlines()}
    in_ci = re.findall(r"^- run: (power .+)$", page, re.MULTILINE)
    assert [line for line in in_ci if line not in ran] == [
        "power run plan.lock --prompt-file prompt.txt"
    ]
