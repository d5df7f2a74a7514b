"""A predicate's page and its model, read into the same form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

FOLDER = Path(__file__).parents[2] / "docs" / "predicates"
_ROW = re.compile(
    r"^\| `([^`]+)` \| ([^|]+) \| (required|optional) \|[^|]*\| `(.*)` \|$", re.MULTILINE
)


class Page:
    """The page of one predicate, and the fields that its model has.

    rows: field -> whether it is required, and its example. fields: field -> whether
    it is required, and its type.
    """

    def __init__(self, predicate_type: str, model: type[BaseModel]) -> None:
        name = predicate_type.removeprefix("urn:power:").replace(":", "-")
        self.text = (FOLDER / f"{name}.md").read_text("utf-8")
        found = _ROW.findall(self.text)
        self.rows = {path: (need == "required", example) for path, _, need, example in found}
        assert len(found) == len(self.rows)
        self.fields = {path: (need, kind) for path, need, kind in _fields(model)}


def _fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, bool, Any]]:
    """Each field of a model and of the models in it: path, required, type."""
    for name, info in model.model_fields.items():
        here = f"{path}.{info.alias or name}".lstrip(".")
        annotation: Any = info.annotation
        if info.metadata:
            annotation = Annotated[annotation, *info.metadata]
        yield here, info.is_required(), annotation
        yield from _below(info.annotation, here)


def _below(annotation: Any, path: str) -> Iterator[tuple[str, bool, Any]]:
    arguments = [a for a in get_args(annotation) if a is not NoneType]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _fields(annotation, path)
    elif get_origin(annotation) is list:
        yield from _below(arguments[0], f"{path}[]")
    elif get_origin(annotation) is dict:
        yield f"{path}.*", True, arguments[1]
    elif get_origin(annotation) is not None and NoneType in get_args(annotation):
        yield from _below(arguments[0], path)
