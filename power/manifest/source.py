"""A TOML text with a name, and the places of its keys once somebody asks."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal

from power.diagnostics import Span
from power.manifest.positions import Path, Place, positions
from power.manifest.read import span_at


class Source:
    """The text of one manifest or profile. `name` is shown; `what` names its kind."""

    def __init__(self, text: str, name: str, what: str) -> None:
        self.text = text
        self.name = name
        self.what = what

    @cached_property
    def _places(self) -> dict[Path, Place]:
        return positions(self.text)

    def span(
        self, *keys: str | int, at: Literal["key", "value"] = "value", label: str = ""
    ) -> Span:
        """The place of a value (or of its key), else of the nearest table around it."""
        place, exact = self._find(keys) or (self._guess(keys[-1:]), False)
        offset, width = place.value if exact and at == "value" else place.key
        return span_at(self.text, offset, self.name, width, label)

    def offset(self, keys: Path) -> int:
        """Where a key or the nearest table around it starts in the text; 0 if nobody knows."""
        found = self._find(keys)
        return found[0].key[0] if found is not None else 0

    def _find(self, keys: Path) -> tuple[Place, bool] | None:
        """The place of `keys` or of what holds it, and whether it is the place itself."""
        for end in range(len(keys), 0, -1):
            place = self._places.get(keys[:end])
            if place is not None:
                return place, end == len(keys)
        return None

    def _guess(self, key: Path) -> Place:
        """The first line that looks as if it set the key, in a text without known places."""
        match = None
        if key and not self._places:
            pattern = rf"^[ \t]*({re.escape(str(key[0]))})[ \t]*="
            match = re.search(pattern, self.text, re.MULTILINE)
        place = (0, 1) if match is None else (match.start(1), len(match.group(1)))
        return Place(place, place)
