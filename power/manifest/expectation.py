"""What the models take at a place, in words: for diagnostics and for references."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel

from power.manifest.text_rules import Expected


def keys_of(model: type[BaseModel], keys: Sequence[str | int]) -> list[str]:
    """The keys that the table at `keys` may have, in file order; empty where it is no table."""
    annotation: Any = model
    for key in keys:
        annotation = _step(annotation, key)
    table = table_model(annotation)
    if table is None:
        return []
    return [info.alias or name for name, info in table.model_fields.items()]


def expectation(model: type[BaseModel], keys: Sequence[str | int]) -> str | None:
    """What the value at `keys` should be, in words; None when the model does not say."""
    annotation: Any = model
    for key in keys:
        annotation = _step(annotation, key)
    return _words(annotation) if annotation is not None else None


def _step(annotation: Any, key: str | int) -> Any:
    table = table_model(annotation)
    if table is not None and isinstance(key, str):
        for name, info in table.model_fields.items():
            if key == (info.alias or name):
                return _with_metadata(info.annotation, info.metadata)
        return None
    for option in _options(annotation):
        if get_origin(option) is tuple and isinstance(key, int):
            return get_args(option)[0]
        if get_origin(option) is dict:
            return get_args(option)[1]
    return None


def _with_metadata(annotation: Any, metadata: Sequence[Any]) -> Any:
    return Annotated[annotation, *metadata] if metadata else annotation


def _options(annotation: Any) -> list[Any]:
    """The branches of a union, without None and without Annotated around them."""
    if get_origin(annotation) is Annotated:
        return _options(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        return [o for arg in get_args(annotation) for o in _options(arg)]
    return [] if annotation is types.NoneType else [annotation]


def table_model(annotation: Any) -> type[BaseModel] | None:
    """The model of a table among the branches of an annotation."""
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


_ONE_VALUE = re.compile(r"an integer from (\d+) to \1\b")
_PLAIN = {bool: "`true` or `false`", int: "an integer", float: "a number", str: "a string"}


def _words(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0], (*metadata, *arguments[1:]))
    told = [item.text for item in metadata if isinstance(item, Expected)]
    if told:
        words = told[0]
    elif origin in {Union, types.UnionType}:
        arms = [arm for arm in arguments if arm is not types.NoneType]
        words = " or ".join(_words(arm, metadata) for arm in arms)
    elif origin is Literal:
        values = [f"`{value}`" for value in arguments]
        words = values[0] if len(values) == 1 else "one of " + ", ".join(values)
    elif origin is tuple:
        count = _bounds(metadata, " of {} to {} items", " of at least {} items")
        words = f"an array{count}, each {_words(arguments[0])}"
    else:
        words = _PLAIN.get(annotation, "a table")
        if annotation in {int, float}:
            words += _bounds(metadata, " from {} to {}", " of at least {}")
            words = _ONE_VALUE.sub(r"\1", words)
    return words


def _bounds(metadata: Sequence[Any], both: str, lower: str) -> str:
    """The limits among `metadata`, through one of two templates."""
    low: Any = None
    high: Any = None
    above = False
    for item in _flat(metadata):
        if isinstance(item, annotated_types.Ge):
            low = item.ge
        elif isinstance(item, annotated_types.Gt):
            low, above = item.gt, True
        elif isinstance(item, annotated_types.Le):
            high = item.le
        elif isinstance(item, annotated_types.MinLen):
            low = item.min_length
        elif isinstance(item, annotated_types.MaxLen):
            high = item.max_length
    if high is None:
        return "" if low is None else lower.format(low)
    if above:
        return f" above {low} and at most {high}"
    return both.format(0 if low is None else low, high)


def _flat(metadata: Sequence[Any]) -> Iterator[Any]:
    for item in metadata:
        yield from getattr(item, "metadata", None) or (item,)
