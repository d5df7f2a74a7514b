"""A cursor over a GGUF header: fixed fields, strings and arrays, each checked before it is read."""

from __future__ import annotations

import struct
from array import array
from typing import Any, NoReturn

from power.artifact.values import FORMATS, WIDTHS, Numbers, Strings, ValueType
from power.artifact.window import Window
from power.diagnostics import fail

ITEM_LIMIT = 1 << 20
"""Most strings of one array: the largest known tokenizer has 514,906 merges."""

_U64 = struct.Struct("<Q")
_STRUCTS = {kind: struct.Struct("<" + code) for kind, code in FORMATS.items()}


class Cursor:
    """Reads forward from byte `at` of `window`."""

    __slots__ = ("at", "window")

    def __init__(self, window: Window, at: int = 0) -> None:
        self.window = window
        self.at = at

    def place(self, field: str, at: int) -> str:
        """Where a diagnostic points: the file, the field and its byte offset."""
        return f"{self.window.name}: {field} at byte {at}"

    def number(self, kind: ValueType, field: str) -> Any:
        """The next fixed-width value. Raises PowerError P203 at the end of the file."""
        at = self.at
        width = WIDTHS[kind]
        if not self.window.reach(at + width):
            self.cut_short(field, at, width)
        self.at = at + width
        return _STRUCTS[kind].unpack_from(self.window.data, at)[0]

    def text(self, field: str, limit: int, at: int | None = None) -> bytes:
        """The next string: a u64 length, then that many bytes, at most `limit`.

        Diagnostics point at byte `at`, by default the length's. Raises P203 or P205.
        """
        at = self.at if at is None else at
        length = self.number(ValueType.UINT64, f"length of {field}")
        end = self.at + length
        if end > self.window.size:
            fail(
                "P203",
                f"{field} claims more bytes than the file has left",
                place=self.place(field, at),
                expected=f"at most {self.window.size - self.at} bytes",
                found=f"{length} bytes",
                hint="the file is damaged or cut short: download it again",
            )
        if length > limit:
            fail(
                "P205",
                f"{field} is {length} bytes long",
                place=self.place(field, at),
                expected=f"at most {limit} bytes",
                found=f"{length} bytes",
                hint="no real file has this: download it again or ask who made it",
            )
        self.window.reach(end)
        out = bytes(self.window.data[self.at : end])
        self.at = end
        return out

    def strings(self, count: int, field: str, at: int) -> Strings:
        """The next `count` strings, located but not decoded.

        One loop with nothing but a length in it: a failed unpack means that the
        window must grow or that the file has ended.
        """
        if count > ITEM_LIMIT:
            self._impossible_count(count, ITEM_LIMIT, field, at)
        window = self.window
        ends = array("I")
        append, unpack = ends.append, _U64.unpack_from
        start = position = self.at
        while len(ends) < count:
            try:
                for _ in range(count - len(ends)):
                    position += unpack(window.data, position)[0] + 8
                    append(position)
            except (struct.error, OverflowError):
                if position > window.size or not window.reach(position + 8):
                    self._array_runs_out(len(ends), count, field, at)
        if position > window.size:
            self._array_runs_out(len(ends) - 1, count, field, at)
        window.reach(position)
        self.at = position
        return Strings(window, start, ends)

    def numbers(self, kind: ValueType, count: int) -> Numbers:
        """The next `count` numbers; the caller has checked that the file holds them."""
        start = self.at
        self.at = start + count * WIDTHS[kind]
        self.window.reach(self.at)
        return Numbers(self.window, start, count, kind)

    def array_count(self, width: int, field: str, at: int) -> int:
        """The next u64 as a count of items of at least `width` bytes; P203 when impossible."""
        count: int = self.number(ValueType.UINT64, f"length of {field}")
        room = (self.window.size - self.at) // width
        if count > room:
            self._impossible_count(count, room, field, at)
        return count

    def cut_short(self, field: str, at: int, width: int) -> NoReturn:
        """Say that the file ends inside a fixed field."""
        fail(
            "P203",
            f"the file ends inside {field}",
            place=self.place(field, at),
            expected=f"{width} bytes",
            found=f"{max(0, self.window.size - at)} bytes",
            hint="the file is cut short: download it again",
        )

    def _impossible_count(self, count: int, most: int, field: str, at: int) -> NoReturn:
        fail(
            "P203",
            f"{field} claims {count} items, more than it can hold",
            place=self.place(field, at),
            expected=f"at most {most} items",
            found=f"{count} items",
            hint="the file is damaged or was made to exhaust memory: do not use it",
        )

    def _array_runs_out(self, index: int, count: int, field: str, at: int) -> NoReturn:
        fail(
            "P203",
            f"string {max(0, index)} of {field} reaches past the end of the file",
            place=self.place(field, at),
            expected=f"{count} strings within {self.window.size} bytes",
            found=f"{max(0, index)} that fit",
            hint="the file is damaged or cut short: download it again",
        )
