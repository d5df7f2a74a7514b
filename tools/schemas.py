"""JSON Schemas of every format, from the models that read and write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from power.evidence import outputs
from power.evidence.compare import Comparison
from power.evidence.index import Contents
from power.evidence.quality_report import Matrix
from power.evidence.report import Report
from power.evidence.trace import Trace
from power.evidence.tuned import TuneReport
from power.manifest.model import Manifest
from power.manifest.profile import Profile
from power.plan.model import Plan
from power.receipt.certificate import CertificatePredicate
from power.receipt.predicate import Predicate
from power.receipt.trust import TrustFile
from power.review.diff_output import DiffOutput
from power.review.review_output import ReviewOutput
from tools import reference_tables

FOLDER = Path("docs/schemas")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# One line of text, as the plan's model says it in a dialect that JSON Schema does not have.
_LINES = r"[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]"
_PORTABLE = r"[^\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\ufeff]"
_DIAGNOSTIC = {
    "type": "object",
    "required": ["code", "severity", "message"],
    "properties": {
        "code": {"type": "string", "pattern": "^P[1-8][0-9]{2}$"},
        "severity": {"enum": ["error", "warning"]},
        "message": {"type": "string"},
        "place": {"type": "string"},
        "spans": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["file", "line", "column", "width"],
                "properties": {
                    "file": {"type": "string"},
                    "line": {"type": "integer", "minimum": 1},
                    "column": {"type": "integer", "minimum": 1},
                    "width": {"type": "integer", "minimum": 1},
                    "label": {"type": "string"},
                },
                "additionalProperties": False,
            },
        },
        "expected": {"type": "string"},
        "found": {"type": "string"},
        "hint": {"type": "string"},
    },
    "additionalProperties": False,
}


def _of_model(model: type[BaseModel], root: str | None) -> dict[str, Any]:
    """The schema of `model`; `root` names the file in the tables of meanings."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    tables = {"": schema, **schema.get("$defs", {})}
    for path, section in reference_tables.sections(model):
        table = tables["" if section is model else section.__name__]
        table.pop("title", None)
        if "const" in table["properties"].get("schema", {}):  # written always, whatever its default
            table["required"] = ["schema", *table["required"]]
        for name, field in section.model_fields.items():
            key = field.alias or name
            found = table["properties"][key]
            found.pop("title", None)
            if root is not None and "description" not in found and "$ref" not in found:
                try:
                    found["description"] = reference_tables.meaning(path or root, key, field)
                except KeyError:
                    continue  # a table: its own description says it
    portable: dict[str, Any] = _portable(schema)
    return portable


def _portable(value: Any) -> Any:
    """`value` with patterns that every validator reads, and without null, which no file holds."""
    if isinstance(value, list):
        return [_portable(item) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if key == "title" and isinstance(inner, str):
            continue  # pydantic's own words
        if key == "default" and (inner is None or isinstance(inner, dict)):
            continue  # not set; or a section, whose keys have their own
        if key == "anyOf":
            kinds = [kind for kind in inner if kind != {"type": "null"}]
            found |= _portable(kinds[0]) if len(kinds) == 1 else {"anyOf": _portable(kinds)}
        elif key == "pattern" and isinstance(inner, str):
            found[key] = inner.replace(_LINES, _PORTABLE)
        else:
            found[key] = _portable(inner)
    return found


def _of_verb(name: str, model: type[BaseModel]) -> dict[str, Any]:
    """What `power NAME --format json` prints: the envelope, and the answer where there is one."""
    schema = _of_model(model, None)
    answer = schema.pop("properties")
    schema["properties"] = {
        "schema": {"const": f"power.{name}.v1"},
        "exit_code": {"enum": [0, 1, 2, 3, 4, 130]},
        **answer,
        "diagnostics": {"type": "array", "items": _DIAGNOSTIC},
    }
    schema["required"] = ["schema", "exit_code"]  # an answer lacks the rest where it is an error
    return schema


VERBS: dict[str, type[BaseModel]] = {
    "bench": outputs.BenchOutput,
    "compare": outputs.CompareOutput,
    "diff": DiffOutput,
    "evidence-pack": outputs.PackageOutput,
    "evidence-verify": outputs.PackageOutput,
    "quality": outputs.QualityOutput,
    "report": outputs.ReportOutput,
    "review": ReviewOutput,
    "simulate": outputs.SimulateOutput,
    "tune": outputs.TuneOutput,
}
SCHEMAS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "manifest": ("A manifest (manifests/NAME.toml)", lambda: _of_model(Manifest, "file")),
    "profile": ("A profile (profiles/NAME.toml)", lambda: _of_model(Profile, "file")),
    "plan": ("A plan (plan.lock)", lambda: _of_model(Plan, "plan")),
    "trust": ("A verifier's list of keys (trust.toml)", lambda: _of_model(TrustFile, None)),
    "speculative-run-v1": ("The predicate of a receipt", lambda: _of_model(Predicate, None)),
    "exactness-certificate-v1": (
        "The predicate of a certificate",
        lambda: _of_model(CertificatePredicate, None),
    ),
    "evidence-v1": (
        "The predicate of a package's index",
        lambda: _of_model(Contents, None),
    ),
    "bench-report": ("The report of `power bench`", lambda: _of_model(Report, None)),
    "comparison": ("The file of `power compare -o`", lambda: _of_model(Comparison, None)),
    "quality-report": ("The report of `power quality`", lambda: _of_model(Matrix, None)),
    "tune-report": ("The report of `power tune`", lambda: _of_model(TuneReport, None)),
    "trace": ("The trace of `power tune`", lambda: _of_model(Trace, None)),
} | {
    name: (f"power {name.replace('-', ' ')} --format json", partial(_of_verb, name, model))
    for name, model in VERBS.items()
}
"""Of each file under its name, and of each verb's answer under the verb's."""


def schemas() -> Iterator[tuple[Path, str]]:
    """Each schema's file, relative to the repository, and its text."""
    for name, (title, make) in SCHEMAS.items():
        head = {"$schema": _DIALECT, "$id": f"urn:power:schema:{name}", "title": title}
        text = json.dumps(head | make(), indent=2, ensure_ascii=True)
        yield FOLDER / f"{name}.schema.json", text + "\n"
