"""Pipes, folders and devices where a file belongs: a diagnostic at once, never a wait."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Bench

pytestmark = pytest.mark.engine


@pytest.fixture
def odd(ready: Bench) -> Bench:
    """A folder with a pipe that nobody writes to, and one that holds nothing."""
    os.mkfifo(ready.folder / "pipe")
    (ready.folder / "folder").mkdir()
    ready.write("p.jsonl", '{"prompt": "a"}\n')
    vectors = Path(__file__).parents[1] / "vectors" / "receipts"
    (ready.folder / "r.json").write_bytes((vectors / "ed25519.sigstore.json").read_bytes())
    (ready.folder / "r.pub").write_bytes((vectors / "ed25519.pub").read_bytes())
    return ready


@pytest.mark.parametrize("file", ["pipe", "folder", "/dev/zero"])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("run FILE --prompt a", "P430"),
        ("run plan.lock --prompt a --key FILE", "P602"),
        ("run plan.lock --prompt a --receipt FILE", "P440"),
        ("run plan.lock --prompts FILE --out o.jsonl", "P573"),
        ("run plan.lock --prompts p.jsonl --out FILE", "P573"),
        ("verify FILE --key r.pub", "P605"),
        ("verify r.json --key FILE", "P605"),
        ("verify r.json --trust FILE", "P102"),
        ("verify r.json --key r.pub --plan FILE", "P706"),
        ("verify r.json --key r.pub --output FILE", "P706"),
        ("compile FILE", "P102"),
        ("compile manifest.toml -o FILE", "P439"),
        ("init target.gguf -o FILE", "P440"),
        ("inspect FILE", "P223"),
        ("key show FILE", "P605"),
    ],
)
def test_what_is_no_file_is_refused_at_once(odd: Bench, command: str, code: str, file: str) -> None:
    if (command, file) == ("verify FILE --key r.pub", "folder"):
        code = "P853"  # it might be a package of evidence
    done = odd(*command.replace("FILE", file).split())
    assert done.code in {2, 3}
    assert f"error[{code}]" in done.stderr
    assert not odd.receipts


@pytest.mark.parametrize("name", ["", ".", "/"])
@pytest.mark.parametrize("command", [["compile"], ["certify"], ["run", "plan.lock", "--key"]])
def test_what_has_no_name_is_no_file(bench: Bench, command: list[str], name: str) -> None:
    done = bench(*command, name)
    assert done.code == 2
    assert done.stderr.startswith("error[P701]: invalid value for ")
    assert f"`{name}` names no file" in done.stderr


@pytest.mark.parametrize("file", ["pipe", "folder"])
def test_a_prompt_that_never_comes_is_not_waited_for(odd: Bench, file: str) -> None:
    done = odd("run", "plan.lock", "--prompt-file", file)
    assert done.code == 2
    assert "error[P706]" in done.stderr


def test_a_prompt_may_come_from_another_command(ready: Bench) -> None:
    script = f'"{sys.executable}" -m power run plan.lock --prompt-file <(printf %s one)'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=ready.folder,
        env=ready.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ready("run", "plan.lock", "--prompt", "one").stdout
