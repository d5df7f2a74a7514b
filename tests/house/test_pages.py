"""Pages do what they say: their blocks, run in order in a scratch folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT, texts
from tools.run_tutorial import FENCE, lacking, run, steps

CORPUS = ROOT / "tests/vectors/corpus"
PAGES = {
    name: found[1]
    for name, text in texts().items()
    if name.startswith("docs/") and (found := re.search(r"<!-- run in: (\w+) -->", text))
}
# Pages with commands that nothing runs here, and why.
ELSEWHERE = {
    "docs/how-to/verify-a-receipt-without-power.md": "tests/house/test_how_to.py runs it",
    "docs/how-to/certify-a-plan.md": "minutes of measuring; tests/evidence/test_certify.py does it",
    "docs/how-to/tune-for-a-host.md": "needs a quiet host; tests/cli/test_tune.py does it",
    "docs/how-to/add-a-backend.md": "`make units`, which is what runs this",
    "docs/how-to/add-a-drafter.md": "`make units` and `make matrix`",
}


def scratch(kind: str, folder: Path) -> dict[str, str]:
    """Fill `folder` for pages of a kind; the variables that their commands get."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    if kind == "tiny":
        shutil.copy(CORPUS / "gguf/good-v3-target.gguf", folder / "model.gguf")
    elif kind == "split":
        for number in (1, 2):
            name = f"-0000{number}-of-00002.gguf"
            shutil.copy(CORPUS / f"split/good-split-2/m{name}", folder / f"model{name}")
    else:
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
    return environment


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    found = steps(texts()[page])
    code, outputs = run(found, tmp_path, scratch(PAGES[page], tmp_path))
    assert code == 0, outputs[-1]
    for step, output in zip(found, outputs, strict=True):
        assert lacking(output, step.expected) is None, output


def test_every_how_to_is_run_or_says_where() -> None:
    silent = [
        name
        for name, text in texts().items()
        if name.startswith("docs/how-to/")
        and any(block["kind"] == "bash" for block in FENCE.finditer(text))
        and name not in PAGES
        and name not in ELSEWHERE
    ]
    assert silent == []


def test_few_blocks_are_not_run() -> None:
    skipped = {
        name: [block["skip"] for block in FENCE.finditer(text) if block["skip"]]
        for name, text in texts().items()
        if name.startswith("docs/")
    }
    assert sum(map(len, skipped.values())) <= 3


def test_the_steps_of_the_ci_page_are_the_commands_that_it_ran() -> None:
    page = texts()["docs/how-to/use-in-ci.md"]
    ran = {line for step in steps(page) for line in step.script.splitlines()}
    in_ci = re.findall(r"^- run: (power .+)$", page, re.MULTILINE)
    assert [line for line in in_ci if line not in ran] == [
        "power run plan.lock --prompt-file prompt.txt"
    ]
