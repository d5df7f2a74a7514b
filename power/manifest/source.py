"""A TOML text with a name, and the places of its keys once somebody asks."""

from __future__ import annotations

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
        for end in range(len(keys), 0, -1):
            place = self._places.get(keys[:end])
            if place is not None:
                offset, width = getattr(place, at) if end == len(keys) else place.key
                return span_at(self.text, offset, self.name, width, label)
        return span_at(self.text, 0, self.name, label=label)
