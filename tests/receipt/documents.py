"""Changing JSON documents one place at a time."""

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]


def places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value below `value`, containers too, with its path."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


def put(document: Any, path: Path, value: Any) -> Any:
    """A copy of `document` with `value` at `path`."""
    out = copy.deepcopy(document)
    parent = out
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return out


def without(document: Any, path: Path) -> Any:
    """A copy of `document` without what is at `path`."""
    out = copy.deepcopy(document)
    parent = out
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return out


def changed(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        flip = "1" if value[-1:] != "1" else "2"
        return value[:-1] + flip
    if isinstance(value, list):
        return [*value, "more"]
    return {**value, "more": 1}


def tampered(document: Any) -> Iterator[tuple[str, Any]]:
    """`document` with each place changed, and with each place removed."""
    for path, value in places(document):
        name = ".".join(str(part) for part in path)
        yield f"changed {name}", put(document, path, changed(value))
        yield f"removed {name}", without(document, path)


def payload_of(bundle: bytes) -> bytes:
    return base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"])
