"""A few tensors of a GGUF file that was verified before, without reading the rest.

The `gguf` package's reader makes an object of every token of the vocabulary,
which takes half a minute where there are 250,000 of them; this one steps over
them. It trusts the file: Power's own checks and the engine's loader have seen it.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass

import gguf
import numpy as np
import numpy.typing as npt
from gguf.quants import dequantize

from power.backends.llamacpp.batch import Rows

Ids = npt.NDArray[np.int64]

_STRING, _ARRAY = 8, 9
# Bytes of a value of each scalar type of the format.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_MAGIC = 4
_ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where a matrix lies in a file. shape: (rows, columns), row after row; a list is one row."""

    fd: int
    offset: int  # of its first byte in the file
    shape: tuple[int, int]
    type: gguf.GGMLQuantizationType

    def first_rows(self, count: int) -> Rows:
        """The first `count` rows, dequantised: float32 [count, columns]."""
        return self._dequantised(self._raw(count))

    def rows(self, numbers: Ids) -> Rows:
        """The rows `numbers`, in this order, dequantised: float32 [numbers, columns].

        The numbers are below `shape[0]`. No other row is dequantised or kept.
        """
        return self._dequantised(self._raw(int(numbers.max()) + 1)[numbers])

    def integers(self) -> Ids:
        """The numbers of an I64 list: int64 [columns]."""
        ids: Ids = self._raw(1)[0].view("<i8").astype(np.int64)
        return ids

    def _raw(self, count: int) -> npt.NDArray[np.uint8]:
        block, size = gguf.GGML_QUANT_SIZES[self.type]
        row = self.shape[1] // block * size
        with mmap.mmap(self.fd, 0, access=mmap.ACCESS_READ) as data:
            raw = np.frombuffer(data[self.offset : self.offset + count * row], np.uint8)
        return raw.reshape(count, row)

    def _dequantised(self, raw: npt.NDArray[np.uint8]) -> Rows:
        return np.ascontiguousarray(dequantize(raw, self.type), np.float32)


def find_tensors(fd: int, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """The matrices and lists of the file whose names are `wanted`."""
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
        return _Walk(data).find(fd, wanted)


def _rows(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[1] if len(shape) > 1 else 1, shape[0])


class _Walk:
    """One way through a header, front to back."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = _MAGIC
        self._alignment = _ALIGNMENT

    def find(self, fd: int, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
        _version, tensors, keys = self._read("<IQQ")
        for _ in range(keys):
            self._key()
        infos = [self._info() for _ in range(tensors)]
        start = -(-self._at // self._alignment) * self._alignment
        return {
            name: Tensor(fd, start + offset, _rows(shape), gguf.GGMLQuantizationType(kind))
            for name, shape, kind, offset in infos
            if wanted(name)
        }

    def _info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string().decode()
        (rank,) = self._read("<I")
        shape = self._read(f"<{rank}Q")
        kind, offset = self._read("<IQ")
        return name, shape, kind, offset

    def _key(self) -> None:
        name = self._string()
        (kind,) = self._read("<I")
        if name == b"general.alignment":
            (self._alignment,) = self._read("<I")
        else:
            self._skip(kind)

    def _skip(self, kind: int) -> None:
        if kind == _STRING:
            self._string()
        elif kind == _ARRAY:
            of, count = self._read("<IQ")
            if of in _SIZES:
                self._at += _SIZES[of] * count
            else:
                for _ in range(count):
                    self._skip(of)
        else:
            self._at += _SIZES[kind]

    def _string(self) -> bytes:
        (length,) = self._read("<Q")
        start, self._at = self._at, self._at + length
        return self._data[start : self._at]

    def _read(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values
