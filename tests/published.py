"""Documents held against the JSON Schemas that are published for them."""

from __future__ import annotations

import datetime as dt
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).resolve().parents[1] / "docs/schemas"


@cache
def validator(name: str) -> Draft202012Validator:
    """The one of docs/schemas/NAME.schema.json."""
    return Draft202012Validator(json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8")))


def problems(name: str, value: Any) -> list[str]:
    """What is wrong with `value` by the schema `name`."""
    found = validator(name).iter_errors(_plain(value))
    return [f"{'/'.join(map(str, p.absolute_path))}: {p.message}" for p in found]


def own_problems(document: Any) -> list[str]:
    """The same by the schema that a document names itself; none where that is not published."""
    named = re.fullmatch(r"power\.([a-z-]+)\.v1", str(document["schema"]))
    assert named is not None
    return problems(named[1], document) if published(named[1]) else []


def published(name: str) -> bool:
    return (FOLDER / f"{name}.schema.json").is_file()


def _plain(value: Any) -> Any:
    """TOML values as JSON has them."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, dt.datetime) else value
