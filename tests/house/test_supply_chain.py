"""What CI installs is pinned by digest, what it may do is written down, what ships is listed."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.sources import ROOT
from tools import sbom

LOCKS = {name: ROOT / "requirements" / f"{name}.txt" for name in ("build", "run", "ci")}
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def pins(name: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for package, version in PIN.findall(LOCKS[name].read_text("utf-8")):
        found.setdefault(package, set()).add(version)
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_has_a_digest_and_no_place(name: str) -> None:
    text = LOCKS[name].read_text("utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert [e.split()[0] for e in entries if "--hash=sha256:" not in e or not PIN.match(e)] == []
    assert not re.search(r"://|--(index-url|extra-index-url|find-links|trusted-host)", text)


def test_the_locks_hold_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    asked = {
        "run": project["project"]["dependencies"],
        "ci": project["project"]["dependencies"]
        + project["project"]["optional-dependencies"]["dev"],
        "build": project["build-system"]["requires"],
    }
    missing = []
    for name, lines in asked.items():
        there = pins(name)
        for line in map(Requirement, lines):
            versions = there.get(canonicalize_name(line.name), set())
            if not versions or not all(line.specifier.contains(v) for v in versions):
                missing.append(f"{name}: {line} is {versions or 'not there'}")
    assert missing == []


@pytest.mark.parametrize("name", ["build", "run"])
def test_the_locks_agree(name: str) -> None:
    whole = pins("ci")
    assert {p: v for p, v in pins(name).items() if not v <= whole.get(p, set())} == {}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_do_nothing_but_what_a_job_says(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {}
    assert {name: job["permissions"] for name, job in workflow["jobs"].items()} == {
        name: {"contents": "read"} for name in workflow["jobs"]
    }


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_commits_and_keep_no_credentials(path: Path) -> None:
    used = [step for step in steps(path) if "uses" in step]
    assert [
        s["uses"] for s in used if not re.fullmatch(r"\./|[\w/-]+@[0-9a-f]{40}", s["uses"])
    ] == []
    checkouts = [step for step in used if step["uses"].startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_ci_installs_from_the_locks() -> None:
    (ran,) = [s for s in steps(ROOT / ".github/workflows/ci.yml") if "run" in s]
    assert ran["env"] == {"LOCKED": "1"}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert makefile.count("--require-hashes") == 3


def test_a_release_has_its_bill_and_is_built_from_the_locks() -> None:
    """The bill lies beside the wheel before their digests are taken, and all of it is kept."""
    ran = [s.get("run", s.get("uses", "").partition("@")[0]) for s in steps(RELEASE)]
    assert ran[2:] == [
        "python -m pip install --require-hashes -r requirements/build.txt",
        "python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist .",
        "python tools/sbom.py --output dist/sbom.cdx.json",
        "sha256sum * > SHA256SUMS",
        "actions/upload-artifact",
    ]


def test_the_bill_of_materials_lists_every_pin_with_its_digests() -> None:
    document = json.loads(sbom.document())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    listed: dict[str, set[str]] = {}
    for component in document["components"]:
        listed.setdefault(component["name"], set()).add(component["version"])
        digests = [p["value"] for p in component["properties"] if p["name"] == "power:sha256"]
        assert digests, component["name"]
        assert component["purl"] == f"pkg:pypi/{component['name']}@{component['version']}"
    assert listed == pins("run")
    references = [component["bom-ref"] for component in document["components"]]
    assert len(set(references)) == len(references)


def test_the_bill_is_the_same_every_time() -> None:
    assert sbom.document() == sbom.document()
