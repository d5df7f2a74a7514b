"""The published JSON Schemas: every example holds, and what is refused is refused."""

from __future__ import annotations

import base64
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from power.review.diff import diff
from power.review.diff_output import render_json
from power.review.documents import load_document
from tests.house.sources import ROOT, texts
from tests.published import FOLDER, own_problems, problems
from tools.schemas import SCHEMAS

VECTORS = ROOT / "tests/vectors"
MANIFESTS = sorted((ROOT / "manifests").glob("*.toml"))
PROFILES = sorted((ROOT / "profiles").glob("*.toml"))
PLANS = [VECTORS / "plans/good.lock", *sorted((ROOT / "manifests").glob("*.lock"))]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one(name: str) -> None:
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    assert "null" not in json.dumps(schema)


def test_no_schema_is_left_over() -> None:
    names = {path.name.removesuffix(".schema.json") for path in FOLDER.iterdir()}
    assert names == set(SCHEMAS)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        *(("manifest", path) for path in MANIFESTS),
        *(("profile", path) for path in PROFILES),
        *(("plan", path) for path in PLANS),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_what_is_shipped_holds(name: str, path: Path) -> None:
    assert problems(name, tomllib.loads(path.read_text("utf-8"))) == []


@pytest.mark.parametrize("receipt", ["ed25519", "p256", "control"])
def test_a_receipts_predicate_holds(receipt: str) -> None:
    path = VECTORS / f"receipts/{receipt}.sigstore.json"
    payload = json.loads(path.read_text("utf-8"))["dsseEnvelope"]["payload"]
    statement = json.loads(base64.b64decode(payload))
    assert problems("speculative-run-v1", statement["predicate"]) == []


@pytest.mark.parametrize("model", ["smollm2", "qwen-coder"])
@pytest.mark.parametrize("kind", ["tune", "trace"])
def test_the_evidence_of_a_shipped_profile_holds(model: str, kind: str) -> None:
    path = ROOT / "profiles/evidence/tuned" / f"tuned-{model}.{kind}.json"
    assert own_problems(json.loads(path.read_text("utf-8"))) == []


def test_a_document_names_the_schema_that_is_published_for_it() -> None:
    named = {
        name: schema["properties"]["schema"].get("const")
        for name in SCHEMAS
        for schema in [json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8"))]
        if schema["properties"].get("schema", {}).get("type") != "integer"
        and "schema" in schema["properties"]
    }
    assert named == {name: f"power.{name}.v1" for name in named}


def test_the_example_of_the_docs_holds() -> None:
    page = texts()["docs/reference/trust.md"]
    example = page.split("```toml\n")[1].split("```")[0]
    assert problems("trust", tomllib.loads(example)) == []


def test_the_answer_of_a_diff_holds() -> None:
    one, two = (load_document(str(path)) for path in MANIFESTS[:2])
    answer = {"schema": "power.diff.v1", "exit_code": 0, **render_json(diff(one, two))}
    assert problems("diff", answer) == []
    assert problems("diff", answer | {"extra": 1}) != []


GOOD = tomllib.loads(MANIFESTS[0].read_text("utf-8"))


@pytest.mark.parametrize(
    "change",
    [
        {"nmae": "x"},
        {"name": "Not A Name"},
        {"schema": 2},
        {"target": {**GOOD["target"], "sha256": "AB"}},
        {"target": {**GOOD["target"], "path": "../x"}},
        {"target": {**GOOD["target"], "path": "/x"}},
        {"speculation": {"spec_draft_max": 65}},
        {"speculation": {"spec_draft_max": "7"}},
        {"speculation": {"spec_mode": "fast"}},
        {"graph": {"shape": "round"}},
    ],
)
def test_an_editor_would_mark_it(change: dict[str, Any]) -> None:
    assert problems("manifest", GOOD) == []
    assert problems("manifest", GOOD | change) != []


def test_every_key_is_explained_where_it_is_typed() -> None:
    schema = json.loads((FOLDER / "manifest.schema.json").read_text("utf-8"))
    silent = [
        f"{table}.{key}"
        for table, found in (("", schema), *schema["$defs"].items())
        for key, value in found["properties"].items()
        if "description" not in value and "$ref" not in value
    ]
    assert silent == []
