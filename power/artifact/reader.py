"""Typed reading of metadata: the value, or a finding that says why there is none."""

from __future__ import annotations

import math
from collections.abc import Collection

from power.artifact.findings import Findings
from power.artifact.header import Header
from power.artifact.values import Numbers, Strings, Value, ValueType

_CONVERT = "convert the model again with a current llama.cpp"
_DAMAGED = "the file is damaged or was edited by hand: fetch the original"


class Reader:
    """Reads one header's metadata as the engine does, by exact type.

    Every method returns None when the key is absent or unusable; what is wrong
    with it is then among the findings.
    """

    def __init__(self, header: Header, findings: Findings) -> None:
        self.header = header
        self.findings = findings

    def integer(
        self, key: str, low: int, high: int, *, required: bool = False, default: int | None = None
    ) -> int | None:
        """The uint32 under `key`, within low..high; `default` when absent."""
        value = self._typed(key, {ValueType.UINT32}, "uint32", required=required)
        if value is None or not isinstance(value.data, int):
            return default
        return value.data if self._within(key, value.data, low, high) else None

    def per_layer(
        self, key: str, low: int, high: int, *, required: bool = False
    ) -> int | list[int] | None:
        """One uint32, or an array with one integer a layer, each within low..high."""
        value = self.header.values.get(key)
        if value is None or value.type is not ValueType.ARRAY:
            return self.integer(key, low, high, required=required)
        numbers = self.integers(key)
        if numbers is None or not all(self._within(key, number, low, high) for number in numbers):
            return None
        return numbers

    def integers(self, key: str, *, required: bool = False) -> list[int] | None:
        """The array of int32 or uint32 under `key`."""
        value = self._typed(key, {ValueType.ARRAY}, "array of int32", required=required)
        if value is None:
            return None
        if not isinstance(value.data, Numbers) or value.item not in {
            ValueType.INT32,
            ValueType.UINT32,
        }:
            self._wrong_type(key, "array of int32", at_item=True)
            return None
        return [int(number) for number in value.data.items()]

    def flags(self, key: str) -> list[bool] | None:
        """The array of booleans under `key`."""
        value = self._typed(key, {ValueType.ARRAY}, "array of bool")
        if value is None:
            return None
        if not isinstance(value.data, Numbers) or value.item is not ValueType.BOOL:
            self._wrong_type(key, "array of bool", at_item=True)
            return None
        return [bool(number) for number in value.data.items()]

    def real(self, key: str, low: float, high: float, *, required: bool = False) -> float | None:
        """The float32 under `key`, finite and within low..high."""
        value = self._typed(key, {ValueType.FLOAT32}, "float32", required=required)
        if value is None or not isinstance(value.data, float):
            return None
        return value.data if self._within(key, value.data, low, high) else None

    def text(self, key: str, *, required: bool = False) -> str | None:
        """The string under `key`."""
        value = self._typed(key, {ValueType.STRING}, "string", required=required)
        return value.data if value is not None and isinstance(value.data, str) else None

    def flag(self, key: str) -> bool | None:
        """The boolean under `key`."""
        value = self._typed(key, {ValueType.BOOL}, "bool")
        return value.data if value is not None and isinstance(value.data, bool) else None

    def strings(self, key: str, *, required: bool = False) -> Strings | None:
        """The array of strings under `key`."""
        value = self._typed(key, {ValueType.ARRAY}, "array of string", required=required)
        if value is None:
            return None
        if not isinstance(value.data, Strings):
            self._wrong_type(key, "array of string", at_item=True)
            return None
        return value.data

    def numbers(self, key: str, items: Collection[ValueType]) -> Numbers | None:
        """The array of numbers under `key`, its items of one of the types `items`."""
        wanted = "array of " + " or ".join(item.name.lower() for item in items)
        value = self._typed(key, {ValueType.ARRAY}, wanted)
        if value is None:
            return None
        if not isinstance(value.data, Numbers) or value.item not in items:
            self._wrong_type(key, wanted, at_item=True)
            return None
        return value.data

    def out_of_range(self, key: str, message: str, *, expected: object, found: object) -> None:
        """Add the finding that the value of `key` cannot be used (P304)."""
        self.findings.add(
            "P304",
            message,
            place=self.header.place(key),
            expected=expected,
            found=found,
            hint=_DAMAGED,
        )

    def missing(self, key: str) -> None:
        """Add the finding that `key` is not there (P302)."""
        self.findings.add(
            "P302",
            f"`{key}` is missing",
            place=self.header.place(key),
            expected=f"a value for `{key}`",
            found="nothing",
            hint=_CONVERT,
        )

    def _typed(
        self, key: str, types: set[ValueType], wanted: str, *, required: bool = False
    ) -> Value | None:
        value = self.header.values.get(key)
        if value is None:
            if required:
                self.missing(key)
            return None
        if value.type not in types:
            self._wrong_type(key, wanted, at_item=False)
            return None
        return value

    def _wrong_type(self, key: str, wanted: str, *, at_item: bool) -> None:
        self.findings.add(
            "P303",
            f"`{key}` has the wrong type",
            place=self.header.place(key, type_of=not at_item),
            expected=wanted,
            found=self.header.values[key].shown,
            hint=_CONVERT,
        )

    def _within(self, key: str, number: float, low: float, high: float) -> bool:
        if math.isfinite(number) and low <= number <= high:
            return True
        self.out_of_range(key, f"`{key}` is {number}", expected=f"{low} to {high}", found=number)
        return False
