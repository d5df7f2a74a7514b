"""A GGUF header (versions 2 and 3), read from an open file that nobody vouches for.

Nothing is allocated by a number from the file before that number was checked
against the file's size. Format: ggml, docs/gguf.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from power.artifact.fields import Cursor
from power.artifact.magic import foreign
from power.artifact.metadata import alignment, check_pair_count, read_pairs
from power.artifact.tensors import Tensor, check_layout, check_tensor_count, read_table
from power.artifact.values import Value, ValueType
from power.artifact.window import Window
from power.diagnostics import fail

VERSIONS = (2, 3)
_SNIFF = 64
_CONTENTS = {"d2t": 8 << 20}
"""Small tensors whose numbers a contract judges, and the most bytes read of each."""


@dataclass(frozen=True, slots=True)
class Header:
    """Everything a GGUF file says before its tensor data; of a split model, all shards together.

    `values` and `tensors` keep file order. `contents` holds the raw bytes of the
    few small tensors (`d2t`) whose numbers a contract must judge. `size` and
    `files` count all shards.
    """

    name: str
    version: int
    alignment: int
    size: int
    values: Mapping[str, Value]
    tensors: Mapping[str, Tensor]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    files: int = 1

    def text(self, key: str) -> str | None:
        """The string under `key`; None when it is absent or no string."""
        value = self.values.get(key)
        return value.data if value is not None and isinstance(value.data, str) else None

    def integer(self, key: str) -> int | None:
        """The integer under `key`; None when it is absent or no integer."""
        value = self.values.get(key)
        if value is None or isinstance(value.data, bool) or not isinstance(value.data, int):
            return None
        return value.data

    def flag(self, key: str) -> bool | None:
        """The boolean under `key`; None when it is absent or no boolean."""
        value = self.values.get(key)
        return value.data if value is not None and isinstance(value.data, bool) else None

    def place(self, key: str, *, type_of: bool = False) -> str:
        """Where `key` stands, for a diagnostic: `model.gguf: general.type at byte 48`."""
        value = self.values.get(key)
        if value is None:
            return f"{self.name}: {key}"
        return f"{value.file}: {key} at byte {value.type_at if type_of else value.at}"


def read_header(fd: int, size: int, name: str) -> Header:
    """Read and check the header of the open file `fd` of `size` bytes.

    `name` is what diagnostics call the file. Reads with `pread`, so the file
    position stays as it is. Raises PowerError P201 to P210 with the field and
    its byte offset.
    """
    window = Window(fd, size, name)
    cursor = Cursor(window)
    _check_magic(cursor)
    version = _version(cursor)
    tensor_count: int = cursor.number(ValueType.UINT64, "tensor_count")
    pair_count: int = cursor.number(ValueType.UINT64, "kv_count")
    check_tensor_count(cursor, tensor_count)
    check_pair_count(cursor, pair_count)
    pairs = read_pairs(cursor, pair_count)
    align = alignment(pairs, cursor)
    tensors, offset_fields = read_table(cursor, tensor_count)
    start = check_layout(cursor, tensors, offset_fields, align, _joined(pairs))
    contents = {
        key: _content(window, start, tensors[key])
        for key, limit in _CONTENTS.items()
        if key in tensors and tensors[key].size <= limit
    }
    window.freeze(cursor.at)
    return Header(name, version, align, size, pairs, tensors, contents)


def _check_magic(cursor: Cursor) -> None:
    window = cursor.window
    window.reach(min(window.size, _SNIFF))
    magic = bytes(window.data[:4])
    cursor.at = 4
    if magic == b"GGUF":
        return
    known = foreign(bytes(window.data[:_SNIFF]))
    what, hint = known or ("", "give a GGUF file; the name alone does not make one")
    fail(
        "P201",
        f"not a GGUF file but {what}" if what else "not a GGUF file: its magic is another",
        place=cursor.place("magic", 0),
        expected="`GGUF`",
        found=f"`{magic.decode('ascii', 'backslashreplace')}`" if magic else "nothing",
        hint=hint,
    )


def _version(cursor: Cursor) -> int:
    version: int = cursor.number(ValueType.UINT32, "version")
    if version not in VERSIONS:
        _unsupported_version(cursor, version)
    return version


def _unsupported_version(cursor: Cursor, version: int) -> NoReturn:
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    if swapped in VERSIONS:
        fail(
            "P202",
            f"a big-endian GGUF of version {swapped}, which this build cannot read",
            place=cursor.place("version", 4),
            expected="a little-endian file",
            found=f"version bytes {version.to_bytes(4, 'little').hex(' ')}",
            hint="convert it with `gguf-convert-endian FILE little`",
        )
    fail(
        "P202",
        f"GGUF version {version} is not supported",
        place=cursor.place("version", 4),
        expected="2 or 3",
        found=version,
        hint="convert the model again"
        if version < VERSIONS[0]
        else "the file needs a newer Power, or is damaged",
    )


def _joined(pairs: Mapping[str, Value]) -> str | None:
    count = pairs.get("split.count")
    return f"shards of a split model (`split.count` {count.data})" if count else None


def _content(window: Window, start: int, tensor: Tensor) -> bytes:
    at = start + tensor.offset
    end = at + tensor.size
    parts: list[bytes] = []
    while at < end:
        parts.append(window.read(at, end - at))
        at += len(parts[-1])
    return b"".join(parts)
