"""The key-value section of a GGUF header."""

from __future__ import annotations

from typing import NoReturn

from power.artifact.fields import Cursor
from power.artifact.values import WIDTHS, Numbers, Strings, Value, ValueType
from power.diagnostics import fail

KEY_LIMIT = 256
"""Most bytes of a key. The format allows 65,535; the longest real keys have some 60."""

PAIR_LIMIT = 1 << 16
ALIGNMENT_LIMIT = 1 << 16
DEFAULT_ALIGNMENT = 32
_SMALLEST_PAIR = 8 + 1 + 4 + 1  # key length, one byte of key, type, one byte of value
_TEXT_LIMIT = 16 << 20  # one text; the longest real one, a whole tokenizer.json, is a few MiB
_STRING_HEAD = 8  # the length field of one string of an array


def check_pair_count(cursor: Cursor, count: int) -> None:
    """Raise P203 unless `count` pairs fit into the bytes after `cursor`, the header's first 24."""
    most = min(PAIR_LIMIT, (cursor.window.size - cursor.at) // _SMALLEST_PAIR)
    if count > most:
        fail(
            "P203",
            f"kv_count says {count} metadata pairs, more than the file can hold",
            place=cursor.place("kv_count", 16),
            expected=f"at most {most}",
            found=count,
            hint="the file is damaged: download it again",
        )


def read_pairs(cursor: Cursor, count: int) -> dict[str, Value]:
    """The next `count` key-value pairs in file order.

    Raises PowerError P203 (too short), P204 (keys), P205 (values).
    """
    pairs: dict[str, Value] = {}
    for index in range(count):
        at = cursor.at
        key = _key(cursor, index)
        if key in pairs:
            fail(
                "P204",
                f"metadata key `{key}` occurs twice: readers disagree about which one counts",
                place=cursor.place(key, at),
                expected="unique keys",
                found=f"first at byte {pairs[key].type_at}",
                hint="ask who made the file; a converter never writes this",
            )
        pairs[key] = _value(cursor, key)
    return pairs


def _key(cursor: Cursor, index: int) -> str:
    at = cursor.at
    field = f"metadata key {index}"
    raw = cursor.text(field, KEY_LIMIT)
    if not raw:
        fail(
            "P204",
            f"{field} is empty",
            place=cursor.place(field, at),
            expected="a name such as `general.name`",
            found="0 bytes",
            hint="the file is damaged or kv_count at byte 16 is wrong: download it again",
        )
    if any(not 0x21 <= byte <= 0x7E for byte in raw):  # noqa: PLR2004 - printable ASCII
        shown = raw.decode("utf-8", "backslashreplace")
        fail(
            "P204",
            f"{field} is not printable ASCII: `{shown}`",
            place=cursor.place(field, at),
            expected="letters, digits, dots and underscores",
            found=raw[:40].hex(" "),
            hint="ask who made the file; terminal escapes in a key are no accident",
        )
    return raw.decode("ascii")


def _value(cursor: Cursor, key: str) -> Value:
    type_at = cursor.at
    kind = _value_type(cursor, f"type of {key}", key, type_at)
    at = cursor.at
    file = cursor.window.name
    if kind is ValueType.ARRAY:
        item, array = _array(cursor, key)
        return Value(kind, array, type_at, at, file, item)
    if kind is ValueType.STRING:
        raw = cursor.text(key, _TEXT_LIMIT, at)
        try:
            return Value(kind, raw.decode("utf-8"), type_at, at, file)
        except UnicodeDecodeError as error:
            fail(
                "P205",
                f"`{key}` is not UTF-8",
                place=cursor.place(key, at + 8 + error.start),
                expected="UTF-8 text",
                found=raw[error.start : error.start + 8].hex(" "),
                hint="the file is damaged or was made by a broken converter",
            )
    number = cursor.number(kind, key)
    if kind is ValueType.BOOL:
        if number > 1:
            _bad_bool(cursor, key, at, number)
        number = bool(number)
    return Value(kind, number, type_at, at, file)


def _value_type(cursor: Cursor, field: str, key: str, at: int) -> ValueType:
    number = cursor.number(ValueType.UINT32, field)
    if number not in ValueType._value2member_map_:
        fail(
            "P205",
            f"`{key}` has value type {number}, which GGUF does not define",
            place=cursor.place(key, at),
            expected="0 to 12",
            found=number,
            hint="the file is damaged: download it again",
        )
    return ValueType(number)


def _array(cursor: Cursor, key: str) -> tuple[ValueType, Strings | Numbers]:
    at = cursor.at
    item = _value_type(cursor, f"item type of {key}", key, at)
    if item is ValueType.ARRAY:
        fail(
            "P205",
            f"`{key}` is an array of arrays, which no reader of models accepts",
            place=cursor.place(key, at),
            expected="an array of numbers, booleans or strings",
            found="an array of arrays",
            hint="ask who made the file: no model needs one",
        )
    if item is ValueType.STRING:
        count = cursor.array_count(_STRING_HEAD, f"`{key}`", at)
        return item, cursor.strings(count, f"`{key}`", at)
    count = cursor.array_count(WIDTHS[item], f"`{key}`", at)
    numbers = cursor.numbers(item, count)
    if item is ValueType.BOOL:
        wrong = bytes(numbers.region).translate(None, b"\x00\x01")
        if wrong:
            _bad_bool(cursor, key, at, wrong[0])
    return item, numbers


def _bad_bool(cursor: Cursor, key: str, at: int, found: int) -> NoReturn:
    fail(
        "P205",
        f"`{key}` holds a boolean that is neither 0 nor 1",
        place=cursor.place(key, at),
        expected="0 or 1",
        found=found,
        hint="the file is damaged or was made by a broken converter",
    )


def alignment(pairs: dict[str, Value], cursor: Cursor) -> int:
    """`general.alignment`, a power of two up to 65,536; 32 when absent. Raises P206."""
    key = "general.alignment"
    value = pairs.get(key)
    if value is None:
        return DEFAULT_ALIGNMENT
    if value.type is not ValueType.UINT32:
        fail(
            "P206",
            f"`{key}` has the wrong type",
            place=cursor.place(key, value.type_at),
            expected="uint32",
            found=value.shown,
            hint="the file was made by a broken converter: convert the model again",
        )
    number = value.data
    assert isinstance(number, int)  # noqa: S101 - its type was just checked
    if not 0 < number <= ALIGNMENT_LIMIT or number & (number - 1):
        fail(
            "P206",
            f"`{key}` is {number}",
            place=cursor.place(key, value.at),
            expected=f"a power of two up to {ALIGNMENT_LIMIT}",
            found=number,
            hint="the file is damaged or was made by a broken converter",
        )
    return number
