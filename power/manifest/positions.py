"""Where keys and values stand in TOML text: a tomlkit walk, on the error path only.

tomlkit keeps every item with its spelling but no positions. Items come in
document order, so a cursor that moves over the spelling of each finds them all
in one pass over the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]


# tomlkit takes seconds for a large text with many keys, and cubic time in the number
# of dotted keys (0.15.2: 30 s for 800). A file that a person wrote is far below both.
WALK_LIMIT = 64 * 1024
DOTTED_LIMIT = 16
_DOTTED = re.compile(r"[\w\"'-][ \t]*\.[ \t]*[\w\"'-]+[ \t]*=")


@dataclass(frozen=True, slots=True)
class Place:
    """Offsets of a key and of its value; an array item's key is the item itself."""

    key: tuple[int, int]  # offset, width
    value: tuple[int, int]


def positions(text: str) -> dict[Path, Place]:
    """The place of every key, table header and array item of `text`, which tomllib has read.

    Empty when tomlkit cannot read it, or could not in reasonable time.
    """
    if len(text) > WALK_LIMIT or len(_DOTTED.findall(text)) > DOTTED_LIMIT:
        return {}
    import tomlkit  # noqa: PLC0415 - 40 ms that only an error should cost
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, ValueError, RecursionError):
        return {}  # tomllib could read it: a place is worth less than the message
    walk = _Walk(text)
    walk.container(document, ())
    return walk.places


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.cursor = 0
        self.places: dict[Path, Place] = {}
        self.elements: dict[Path, int] = {}  # of each array of tables, seen so far
        self.order: list[Place] = []  # as they stand in the text

    def take(self, spelling: str) -> tuple[int, int]:
        """Move behind the next `spelling` and return where it was."""
        found = self.text.find(spelling, self.cursor)
        if found < 0:
            return self.cursor, 1
        self.cursor = found + len(spelling)
        return found, max(1, len(spelling.rstrip()))

    def put(self, path: Path, key: tuple[int, int], value: tuple[int, int] | None = None) -> None:
        """Record a place; the first one of a path stands."""
        place = self.places.setdefault(path, Place(key, value or key))
        self.order.append(place)

    def container(self, container: Any, path: Path) -> None:
        from tomlkit.items import AoT, Table  # noqa: PLC0415 - see `positions`

        for key, item in container.body:
            if key is None:
                self.take(item.as_string())
                continue
            here = (*path, key.key)
            if isinstance(item, AoT):
                for table in item.body:
                    self.element(table, here)
            elif isinstance(item, Table):
                self.table(key, item, here)
            else:
                self.pair(key, item, here)

    def element(self, table: Any, path: Path) -> None:
        index = self.elements.get(path, 0)
        self.elements[path] = index + 1
        header = self.header(table)
        self.put(path, header)
        self.put((*path, index), header)
        self.container(table.value, (*path, index))

    def table(self, key: Any, table: Any, path: Path) -> None:
        if not table.is_super_table():
            self.put(path, self.header(table))
            self.container(table.value, path)
            return
        # `[a.b]` or `a.b = 1`: `a` has no line of its own, its first child stands for it.
        if key.is_dotted():
            self.put(path, self.take(key.as_string()))
        first = len(self.order)
        self.container(table.value, path)
        if first < len(self.order):
            self.put(path, self.order[first].key)

    def header(self, table: Any) -> tuple[int, int]:
        """The header line's brackets and name."""
        start = self.text.find("[", self.cursor)
        end = self.text.find("\n", start)
        self.cursor = len(self.text) if end < 0 else end
        header = self.text[start : self.cursor].rstrip("\r")
        return start, len(header.removesuffix(table.trivia.comment).rstrip())

    def pair(self, key: Any, item: Any, path: Path) -> None:
        key_place = self.take(key.as_string())
        self.put(path, key_place, self.value(item, path))
        self.take(item.trivia.comment)

    def value(self, item: Any, path: Path) -> tuple[int, int]:
        from tomlkit.items import Array, InlineTable  # noqa: PLC0415 - see `positions`

        place = self.take(item.as_string())
        end = self.cursor
        if isinstance(item, Array | InlineTable):
            self.cursor = place[0] + 1
            if isinstance(item, InlineTable):
                self.container(item.value, path)
            else:
                for index, child in enumerate(item):
                    self.put((*path, index), self.value(child, (*path, index)))
            self.cursor = end
        return place
