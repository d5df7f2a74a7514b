"""Another engine is a package, not a patch: one is built, installed and run here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests/examples/backend"
PROGRAM = """
import json, os
from power.backends.registry import backend, backend_names
from power.runner.runner import Runner
from power.runner.types import Request
from tests.runner.conftest import Artifacts, Opened, plan_for

facts = backend("example").describe()
plan = plan_for(
    "prompt-lookup", package=facts.package, version=facts.version, llama_cpp=facts.llama_cpp
)
fd = os.memfd_create("artifact")
with Runner(plan, Artifacts((Opened(fd),)), backend="example") as runner:
    record = runner.generate(Request(text="one two one two"))
print(json.dumps([backend_names(), record.engine.package, record.strategy, len(record.ids)]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example package, built and installed by pip into a folder of its own."""
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
            *("--no-build-isolation", "--disable-pip-version-check", "--target", place, EXAMPLE),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return place


def test_a_package_with_an_entry_point_is_an_engine(installed: Path) -> None:
    environment = os.environ | {"PYTHONPATH": f"{installed}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names, package, strategy, tokens = json.loads(done.stdout)
    assert "example" in names
    assert (package, strategy) == ("power-example-backend", "prompt-lookup")
    assert tokens > 0
