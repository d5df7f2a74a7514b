"""The tensor table of a GGUF header, and where the tensors' data must lie.

The rules are those of ggml's `gguf_init_from_reader`, which refuses gaps and any
other order; a file that passes here is not refused there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

from power.artifact.fields import Cursor
from power.artifact.ggml import REMOVED_TENSOR_TYPES, TENSOR_TYPES, TensorType
from power.artifact.values import ValueType
from power.diagnostics import fail

NAME_LIMIT = 63
"""ggml keeps names in 64 bytes with a terminating NUL."""

TENSOR_LIMIT = 1 << 17
_MOST_DIMENSIONS = 4
_SMALLEST_RECORD = 8 + 1 + 4 + 8 + 4 + 8  # name length, name, n_dims, one dim, type, offset
_ABSURD_NAME = 1 << 10  # longer: this is no tensor record but something else misread
_BYTE_LIMIT = 1 << 44  # 16 TiB in one tensor: the dimensions are a trick, not a model


@dataclass(frozen=True, slots=True)
class Tensor:
    """One record of the table.

    `shape` is in ggml's order, the row length first. `offset` counts from the
    start of the data section of `file`; `at` is the record's own byte offset.
    """

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    size: int
    at: int
    file: str


def check_tensor_count(cursor: Cursor, count: int) -> None:
    """Raise P203 unless `count` records fit into the bytes after `cursor` (the 24th)."""
    most = min(TENSOR_LIMIT, (cursor.window.size - cursor.at) // _SMALLEST_RECORD)
    if count > most:
        fail(
            "P203",
            f"tensor_count says {count} tensors, more than the file can hold",
            place=cursor.place("tensor_count", 8),
            expected=f"at most {most}",
            found=count,
            hint="the file is damaged: download it again",
        )


def read_table(cursor: Cursor, count: int) -> tuple[dict[str, Tensor], dict[str, int]]:
    """The next `count` records by name, and the byte offset of each one's offset field.

    Raises PowerError P203 or P207.
    """
    tensors: dict[str, Tensor] = {}
    offset_fields: dict[str, int] = {}
    for index in range(count):
        at = cursor.at
        name = _name(cursor, index)
        if name in tensors:
            fail(
                "P207",
                f"tensor `{name}` occurs twice",
                place=cursor.place(f"tensor {index}", at),
                expected="unique names",
                found=f"first at byte {tensors[name].at}",
                hint="ask who made the file: a converter never writes this",
            )
        shape_at = cursor.at
        shape = _shape(cursor, name, index)
        kind = _type(cursor, name)
        size = _size(cursor, name, shape, kind, shape_at)
        offset_fields[name] = cursor.at
        offset = cursor.number(ValueType.UINT64, f"offset of tensor `{name}`")
        tensors[name] = Tensor(name, shape, kind, offset, size, at, cursor.window.name)
    return tensors, offset_fields


def _name(cursor: Cursor, index: int) -> str:
    at = cursor.at
    field = f"tensor {index}"
    length = cursor.number(ValueType.UINT64, f"name of {field}")
    cursor.at = at
    if index == 0 and length > _ABSURD_NAME:
        _misplaced_table(cursor, at, f"a name of {length} bytes")
    raw = cursor.text(f"name of {field}", _ABSURD_NAME)
    shown = raw.decode("utf-8", "backslashreplace")
    place = cursor.place(field, at)
    if len(raw) > NAME_LIMIT:
        fail(
            "P207",
            f"the name of tensor {index} is {len(raw)} bytes long: `{shown}`",
            place=place,
            expected=f"at most {NAME_LIMIT} bytes",
            found=f"{len(raw)} bytes",
            hint="the engine cuts names there: convert the model again",
        )
    if not raw or any(not 0x21 <= byte <= 0x7E for byte in raw):  # noqa: PLR2004 - printable ASCII
        fail(
            "P207",
            f"the name of tensor {index} is {'empty' if not raw else f'not plain text: `{shown}`'}",
            place=place,
            expected="printable ASCII such as `blk.0.attn_q.weight`",
            found=raw.hex(" ") or "0 bytes",
            hint="the file is damaged, or tensor_count at byte 8 is wrong",
        )
    return raw.decode("ascii")


def _misplaced_table(cursor: Cursor, at: int, found: str) -> NoReturn:
    fail(
        "P203",
        f"no tensor record begins at byte {at}, where kv_count says that the metadata ends",
        place=cursor.place("kv_count", 16),
        expected="a tensor record",
        found=found,
        hint="the file is damaged: download it again",
    )


def _shape(cursor: Cursor, name: str, index: int) -> tuple[int, ...]:
    at = cursor.at
    count = cursor.number(ValueType.UINT32, f"n_dims of tensor `{name}`")
    if not 1 <= count <= _MOST_DIMENSIONS:
        if index == 0 and count:
            _misplaced_table(cursor, at, f"`{name}` with {count} dimensions")
        fail(
            "P207",
            f"tensor `{name}` has {count} dimensions",
            place=cursor.place(name, at),
            expected=f"1 to {_MOST_DIMENSIONS}",
            found=count,
            hint="the file is damaged or was made by a broken converter",
        )
    shape = tuple(
        cursor.number(ValueType.UINT64, f"dimension {axis} of tensor `{name}`")
        for axis in range(count)
    )
    if 0 in shape:
        fail(
            "P207",
            f"tensor `{name}` has a dimension of 0",
            place=cursor.place(name, at),
            expected="every dimension 1 or more",
            found=list(shape),
            hint="the file is damaged or was made by a broken converter",
        )
    return shape


def _type(cursor: Cursor, name: str) -> TensorType:
    at = cursor.at
    number = cursor.number(ValueType.UINT32, f"type of tensor `{name}`")
    kind = TENSOR_TYPES.get(number)
    if kind is None:
        removed = REMOVED_TENSOR_TYPES.get(number)
        fail(
            "P207",
            f"tensor `{name}` has ggml type {number}, "
            + (f"`{removed}`, which ggml has removed" if removed else "which is not known here"),
            place=cursor.place(name, at),
            expected="a storage type that `gguf.GGMLQuantizationType` names",
            found=number,
            hint="quantise the model again with a current llama.cpp"
            if removed
            else "the file needs a newer Power, or is damaged",
        )
    return kind


def _size(cursor: Cursor, name: str, shape: tuple[int, ...], kind: TensorType, at: int) -> int:
    row = shape[0]
    size = math.prod(shape) * kind.bytes // kind.block
    if size > _BYTE_LIMIT:
        fail(
            "P207",
            f"tensor `{name}` would take {size} bytes",
            place=cursor.place(name, at),
            expected=f"at most {_BYTE_LIMIT} bytes",
            found=" x ".join(map(str, shape)),
            hint="the dimensions are damaged, or made to overflow: do not use the file",
        )
    if row % kind.block:
        fail(
            "P207",
            f"tensor `{name}` is {kind.name} with rows of {row} elements",
            place=cursor.place(name, at),
            expected=f"a multiple of {kind.block}",
            found=row,
            hint="the file is damaged or was made by a broken converter",
        )
    return size


def check_layout(
    cursor: Cursor,
    tensors: dict[str, Tensor],
    offset_fields: dict[str, int],
    alignment: int,
    joined: str | None,
) -> int:
    """The byte where the data section starts; the table ends at `cursor`.

    Tensors lie in table order, each at the next multiple of `alignment`, the last
    one whole, and nothing follows but its padding. `joined` names what a second
    GGUF right after the data would mean. Raises PowerError P208.
    """
    window = cursor.window
    start = -(-cursor.at // alignment) * alignment if tensors else cursor.at
    expected = 0
    for tensor in tensors.values():
        if tensor.offset != expected:
            _misplaced_data(cursor, tensor, offset_fields[tensor.name], expected, alignment)
        end = start + tensor.offset + tensor.size
        if end > window.size:
            fail(
                "P208",
                f"the file ends inside the data of tensor `{tensor.name}`",
                place=f"{window.name}: {tensor.name} at byte {window.size}",
                expected=f"at least {end} bytes",
                found=f"{window.size} bytes",
                hint="the file is cut short: download it again",
            )
        expected += -(-tensor.size // alignment) * alignment
    if window.size > start + expected:
        _trailing_bytes(cursor, start + expected, joined)
    return start


def _misplaced_data(
    cursor: Cursor, tensor: Tensor, at: int, expected: int, alignment: int
) -> NoReturn:
    reason = (
        f"is no multiple of the alignment {alignment}"
        if tensor.offset % alignment
        else "overlaps the tensors before it"
        if tensor.offset < expected
        else "leaves a gap or lies outside the file"
    )
    fail(
        "P208",
        f"the offset of tensor `{tensor.name}`, {tensor.offset}, {reason}",
        place=cursor.place(tensor.name, at),
        expected=expected,
        found=tensor.offset,
        hint="the file is damaged or was made by a broken converter",
    )


def _trailing_bytes(cursor: Cursor, end: int, joined: str | None) -> NoReturn:
    window = cursor.window
    extra = window.size - end
    if window.read(end, 4) == b"GGUF":
        fail(
            "P208",
            f"a second GGUF begins at byte {end}: files joined end to end"
            + (f", {joined}" if joined else ""),
            place=f"{window.name} at byte {end}",
            expected=f"{end} bytes",
            found=f"{window.size} bytes",
            hint="fetch the files one by one, or merge them with `llama-gguf-split --merge`",
        )
    fail(
        "P208",
        f"{extra} bytes follow the last tensor",
        place=f"{window.name} at byte {end}",
        expected=f"{end} bytes",
        found=f"{window.size} bytes",
        hint="download the file again: nothing belongs after the tensors",
    )
