"""Metadata values of a GGUF file; arrays stay bytes until somebody needs an item."""

from __future__ import annotations

import enum
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from power.artifact.window import Window


class ValueType(enum.IntEnum):
    """GGUF metadata value types (ggml docs/gguf.md, `gguf_metadata_value_type`)."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


WIDTHS: dict[ValueType, int] = {
    ValueType.UINT8: 1,
    ValueType.INT8: 1,
    ValueType.UINT16: 2,
    ValueType.INT16: 2,
    ValueType.UINT32: 4,
    ValueType.INT32: 4,
    ValueType.FLOAT32: 4,
    ValueType.BOOL: 1,
    ValueType.UINT64: 8,
    ValueType.INT64: 8,
    ValueType.FLOAT64: 8,
}
"""Bytes of one value of each fixed-width type."""

FORMATS: dict[ValueType, str] = {
    ValueType.UINT8: "B",
    ValueType.INT8: "b",
    ValueType.UINT16: "H",
    ValueType.INT16: "h",
    ValueType.UINT32: "I",
    ValueType.INT32: "i",
    ValueType.FLOAT32: "f",
    ValueType.BOOL: "B",
    ValueType.UINT64: "Q",
    ValueType.INT64: "q",
    ValueType.FLOAT64: "d",
}
"""`struct` and `array` codes, to be used little-endian."""

INTEGERS = frozenset(FORMATS) - {ValueType.FLOAT32, ValueType.FLOAT64, ValueType.BOOL}
REALS = frozenset({ValueType.FLOAT32, ValueType.FLOAT64})


class Strings:
    """An array of strings as the file has it: a u64 length before each text.

    `ends[i]` is the byte after string i, `start` the byte of the first length.
    """

    __slots__ = ("_window", "ends", "start")

    def __init__(self, window: Window, start: int, ends: array[int]) -> None:
        self._window = window
        self.start = start
        self.ends = ends

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> bytes:
        """Text `index` as the file has it; raises IndexError outside 0..len-1."""
        if index < 0:
            raise IndexError(index)
        begin = self.ends[index - 1] if index else self.start
        return bytes(self._window.data[begin + 8 : self.ends[index]])

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.items())

    def items(self) -> list[bytes]:
        """Every text. A quarter of a million take some 20 ms and 15 MiB: do not keep it."""
        data = bytes(self._window.data)
        begins = chain((self.start,), self.ends)
        return [data[begin + 8 : end] for begin, end in zip(begins, self.ends, strict=False)]

    def text(self, index: int) -> str:
        """Text `index`, with bytes that are not UTF-8 shown as escapes."""
        return self[index].decode("utf-8", "backslashreplace")

    @property
    def region(self) -> memoryview:
        """All of it, length prefixes included: two equal regions hold equal texts."""
        return memoryview(self._window.data)[self.start : self.ends[-1] if self.ends else 0]


class Numbers:
    """An array of numbers or booleans, `count` little-endian items from byte `start`."""

    __slots__ = ("_window", "count", "item", "start")

    def __init__(self, window: Window, start: int, count: int, item: ValueType) -> None:
        self._window = window
        self.start = start
        self.count = count
        self.item = item

    def __len__(self) -> int:
        return self.count

    @property
    def region(self) -> memoryview:
        """The bytes of the array."""
        width = WIDTHS[self.item]
        return memoryview(self._window.data)[self.start : self.start + self.count * width]

    def items(self) -> array[int] | array[float]:
        """A copy as a typed array."""
        return _numbers(FORMATS[self.item], self.region)


def _numbers(code: str, data: memoryview | bytes) -> array[int] | array[float]:
    out: array[int] = array(code, bytes(data))
    if sys.byteorder == "big":
        out.byteswap()
    return out


def int64_items(data: bytes) -> array[int] | array[float]:
    """`data` as little-endian signed 64-bit integers: the content of an I64 tensor."""
    return _numbers("q", data)


@dataclass(frozen=True, slots=True)
class Value:
    """One metadata value, and where it is: `type_at` and `at` are byte offsets.

    `at` is the first byte of the value itself: for an array, of its item type.
    """

    type: ValueType
    data: int | float | bool | str | Strings | Numbers
    type_at: int
    at: int
    file: str
    item: ValueType | None = None

    @property
    def shown(self) -> str:
        """The type in the words of a diagnostic: `u32`, `array of string`."""
        if self.item is not None:
            return f"array of {self.item.name.lower()}"
        return self.type.name.lower()
