"""The beginning of an open file, read by need, never past its size or a fixed limit.

Not a memory map: a mapped file that is cut short under the reader kills the
process with SIGBUS; a short `pread` is an ordinary diagnostic.
"""

from __future__ import annotations

import os

from power.diagnostics import fail

HEADER_LIMIT = 64 << 20
"""Most bytes of a header that are read: four times the largest vocabulary known today."""

_STEP = 1 << 20


class Window:
    """Bytes 0..len(data) of the file behind `fd`; `size` is what fstat said at opening."""

    __slots__ = ("data", "fd", "name", "size")

    def __init__(self, fd: int, size: int, name: str) -> None:
        self.fd = fd
        self.size = size
        self.name = name
        self.data: bytearray | bytes = bytearray()

    def reach(self, end: int) -> bool:
        """Have at least `end` bytes in `data`; False when the file is not that long.

        Raises PowerError P209 past the limit, P210 when the file became shorter.
        """
        data = self.data
        if end <= len(data):
            return True
        if end > self.size:
            return False
        if end > HEADER_LIMIT:
            fail(
                "P209",
                "the header is larger than any real one and is not read further",
                place=f"{self.name} at byte {end}",
                expected=f"at most {HEADER_LIMIT} bytes",
                found=f"at least {end} bytes",
                hint="download the file again; if it is right, report it: the limit is a guess",
            )
        assert isinstance(data, bytearray), "a frozen window grows no more"  # noqa: S101
        goal = min(max(end, len(data) + _STEP), self.size, HEADER_LIMIT)
        while len(data) < goal:
            data += self.read(len(data), min(goal - len(data), _STEP))
        return True

    def read(self, offset: int, count: int) -> bytes:
        """Bytes at `offset`, outside the window too; at most `count`, at least one."""
        try:
            chunk = os.pread(self.fd, count, offset)
        except OSError as error:
            fail(
                "P210",
                f"cannot read `{self.name}`: {error.strerror}",
                place=f"{self.name} at byte {offset}",
                hint="check the disk or the network mount that holds the file",
            )
        if not chunk:
            fail(
                "P210",
                f"`{self.name}` became shorter while it was read",
                place=f"{self.name} at byte {offset}",
                expected=f"{self.size} bytes",
                found=f"{offset} bytes",
                hint="wait until whatever writes the file is done, then try again",
            )
        return chunk

    def freeze(self, end: int) -> None:
        """Keep bytes 0..end, immutable from now on: slices of `bytes` can be hashed."""
        self.data = bytes(memoryview(self.data)[:end])
