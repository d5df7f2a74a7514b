"""The canonical form of manifests and profiles: keys in the order of their models.

What the file says stays: its values, the spelling of its numbers and long strings,
and every comment, which moves with the key that it stands at.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import tomli_w

from power.diagnostics import fail
from power.manifest.model import SECTIONS, Settings
from power.manifest.profile import Evidence
from power.manifest.statements import Statement, Statements, statements

WIDTH = 100
_ORIGIN = ["source", "revision", "license", "shards"]
_ORDER: dict[tuple[str, ...], list[str]] = {
    (): ["schema", "name", "summary", "profile", "target", "draft", *SECTIONS, "evidence"],
    ("target",): ["path", "bytes", "sha256", *_ORIGIN],
    ("draft",): ["kind", "path", "bytes", "sha256", "target_sha256", *_ORIGIN],
    ("target", "shards"): ["path", "bytes", "sha256"],
    ("draft", "shards"): ["path", "bytes", "sha256"],
    ("evidence",): list(Evidence.model_fields),
    **{
        (section,): list(getattr(Settings(), section).__class__.model_fields)
        for section in SECTIONS
    },
}
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_Place = tuple[tuple[int, int], ...]


def canonical(text: str, name: str) -> str:
    """`text`, a manifest or profile that can be read, in its canonical form.

    The result means the same, holds the same comments, and is its own canonical
    form. Raises PowerError P148 where that cannot be kept, and nothing is changed.
    """
    text = text.replace("\r\n", "\n")
    found = statements(text)
    new = _written(found)
    if tomllib.loads(new) != tomllib.loads(text) or _comments(new) != _comments(text):
        fail(
            "P148",
            "the file cannot be brought into its canonical form without changing what it says",
            place=name,
            hint="write its tables as `[table]` with a key on each line",
        )
    return new


def _comments(text: str) -> Counter[str]:
    found = statements(text)
    lines = [*found.head, *found.foot]
    for one in found.body:
        lines += [*one.lead, *one.tail, one.comment or ""]
    return Counter(line for line in lines if line)


def _written(found: Statements) -> str:
    root, tables = _tables(found.body)
    first = root[0] if root else tables[0][0] if tables else None
    head = found.head
    if first is not None and not head and first.lead:
        # What stands at the top of a file is about the file.
        head, first.lead = _split(first.lead)
    parts = [_block(head)] if head else []
    if root:
        parts.append(_pairs(root, first=True))
    parts += [
        _block([*header.lead, _header(header), *header.tail])
        + ("\n" if header.tail and pairs else "")
        + _pairs(pairs, first=not header.tail)
        for header, pairs in tables
    ]
    if found.foot:
        parts.append(_block(found.foot))
    return "\n".join(parts)


def _split(lead: list[str]) -> tuple[list[str], list[str]]:
    """The first block of comment lines, and what is behind it."""
    end = lead.index("") if "" in lead else len(lead)
    return lead[:end], lead[end + 1 :]


def _tables(
    body: Sequence[Statement],
) -> tuple[list[Statement], list[tuple[Statement, list[Statement]]]]:
    """The pairs of the top level, and each table with its own, all in canonical order."""
    root: list[Statement] = []
    tables: list[tuple[Statement, list[Statement]]] = []
    for one in body:
        if one.is_header:
            tables.append((one, []))
        else:
            (tables[-1][1] if tables else root).append(one)
    places = list(_places([header for header, _ in tables]))
    order = sorted(range(len(tables)), key=lambda index: places[index])
    return _in_order(root, ()), [
        (header, _in_order(pairs, header.keys)) for header, pairs in (tables[i] for i in order)
    ]


def _in_order(pairs: Sequence[Statement], table: tuple[str, ...]) -> list[Statement]:
    def place(one: Statement) -> tuple[int, ...]:
        return tuple(_rank((*table, *one.keys[:depth]), key) for depth, key in enumerate(one.keys))

    return sorted(pairs, key=place)


def _places(headers: Sequence[Statement]) -> Iterator[_Place]:
    """Where each table goes: by the rank of each of its keys, and the number of its element."""
    elements: dict[tuple[str, ...], int] = {}
    for header in headers:
        if header.array:
            elements[header.keys] = elements.get(header.keys, 0) + 1
            # What lies in an element is counted anew in the next one.
            for inner in [k for k in elements if k[:-1] == header.keys]:
                del elements[inner]
        yield tuple(
            (_rank(header.keys[:depth], key), elements.get(header.keys[: depth + 1], 0))
            for depth, key in enumerate(header.keys)
        )


def _rank(table: tuple[str, ...], key: str) -> int:
    order = _ORDER.get(table, [])
    return order.index(key) if key in order else len(order)


def _pairs(pairs: Sequence[Statement], *, first: bool) -> str:
    """The lines of a table's pairs; `first`: they follow its header at once."""
    lines: list[str] = []
    apart = not first
    for one in pairs:
        lines += [""] if (one.gap or apart) and lines else []
        text = f"{_key(one.keys)} = {_value(one)}" + (f" {one.comment}" if one.comment else "")
        lines += [*one.lead, text, *one.tail]
        apart = bool(one.tail)
    return _block(lines)


def _block(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _header(header: Statement) -> str:
    left, right = ("[[", "]]") if header.array else ("[", "]")
    comment = f" {header.comment}" if header.comment else ""
    return f"{left}{_key(header.keys)}{right}{comment}"


def _key(keys: tuple[str, ...]) -> str:
    return ".".join(key if _BARE.fullmatch(key) else _scalar(key) for key in keys)


def _value(one: Statement) -> str:
    """Strings in double quotes, arrays and inline tables evenly spaced, the rest as it is."""
    spelled, plain = one.value or "", one.plain
    if isinstance(plain, str):
        literal = spelled.startswith("'") and "\n" not in spelled
        simple = plain.isprintable() and not set(plain) & set('"\\')
        return f'"{plain}"' if literal and simple else spelled
    if not isinstance(plain, list | dict) or _has_comment(spelled):
        return spelled
    line = _inline(plain)
    if not isinstance(plain, list) or not (
        len(_key(one.keys)) + 3 + len(line) > WIDTH or any(isinstance(i, dict) for i in plain)
    ):
        return line
    return "[\n" + "".join(f"    {_inline(item)},\n" for item in plain) + "]"


def _inline(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, dict):
        inner = ", ".join(f"{_key((key,))} = {_inline(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return tomli_w.dumps({"v": value}).removeprefix("v = ").rstrip("\n")


def _has_comment(spelled: str) -> bool:
    """Whether a value of several lines holds a comment (or a string with a `#`)."""
    return "#" in spelled
