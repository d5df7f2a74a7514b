"""A manifest laid over its profile laid over the defaults.

`Effective` keeps where each value came from, so that later findings can point
at the right line. `power.manifest.effective` reads the files that are merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from power.diagnostics import Span
from power.manifest import defaults
from power.manifest.load import (
    LoadedManifest,
    LoadedProfile,
)
from power.manifest.model import SECTIONS, Draft, Settings, Target

Layer = Literal["manifest", "profile", "default"]

_CONTROLLER = ("controller", "spec_mtp_adaptive")

# Strategies whose proposer projects a draft vocabulary that FR can cut short.
FR_STRATEGIES = frozenset({"mtp", "dflash", "dspark", "eagle3"})


@dataclass(frozen=True)
class Effective:
    """Everything that holds for one plan before artifacts are looked at.

    `settings` has all sections; its values of None that depend on other values
    are settled by the properties here (`batch`, `rows`, `prefill_batch`,
    `max_tokens`). Sizes are counts of rows or tokens.
    """

    loaded: LoadedManifest
    profile: LoadedProfile | None
    settings: Settings

    @property
    def name(self) -> str:
        """The manifest's name."""
        return self.loaded.manifest.name

    @property
    def target(self) -> Target:
        """The target as the manifest pins it."""
        return self.loaded.manifest.target

    @property
    def draft(self) -> Draft | None:
        """The external draft as the manifest pins it, if it declares one."""
        return self.loaded.manifest.draft

    @property
    def requested(self) -> str:
        """The strategy asked for, which may be `auto`."""
        return self.settings.speculation.spec_mode

    @property
    def implied(self) -> str | None:
        """The strategy as far as the files alone tell; None where the artifacts decide.

        `auto` with a draft is that draft's kind; without one it is the native
        head or off, which only the target's header tells.
        """
        if self.requested != "auto":
            return self.requested
        return None if self.draft is None else self.draft.kind

    @property
    def batch(self) -> int:
        """B."""
        return defaults.batch(self.settings, speculates=self.implied != "off")

    @property
    def rows(self) -> int | None:
        """Rows of a fixed shape; None for a natural one."""
        return defaults.rows(self.settings, speculates=self.implied != "off")

    @property
    def prefill_batch(self) -> int:
        """Tokens of a prefill pass."""
        return defaults.prefill_batch(self.settings.graph)

    @property
    def max_tokens(self) -> int:
        """Most output tokens."""
        return defaults.max_tokens(self.settings)

    @property
    def effective_snapshots(self) -> int:
        """min(S, K): snapshots behind the last proposal would never be used."""
        speculation = self.settings.speculation
        return min(speculation.spec_mtp_recurrent_snapshots, speculation.spec_draft_max)

    @cached_property
    def _layers(self) -> dict[tuple[str, str], Layer]:
        layers: dict[tuple[str, str], Layer] = {}
        lower = None if self.profile is None else self.profile.profile
        for section in SECTIONS:
            for key in _written(lower, section):
                layers[section, key] = "profile"
            for key in _written(self.loaded.manifest, section):
                layers[section, key] = "manifest"
        return layers

    def origin(self, section: str, key: str) -> Layer:
        """Which layer the value of a setting came from."""
        return self._layers.get((section, key), "default")

    def span(self, section: str, key: str, label: str = "") -> Span | None:
        """Where a value was written (`target` and `draft` included); None for a default."""
        if section in {"target", "draft"}:
            return self.loaded.span(section, key, label=label)
        layer = self.origin(section, key)
        if layer == "profile" and self.profile is not None:
            return self.profile.span(section, key, label=label)
        return self.loaded.span(section, key, label=label) if layer == "manifest" else None

    def spans(self, *places: tuple[str, str, str]) -> tuple[Span, ...]:
        """The spans of `(section, key, label)` triples that were written somewhere."""
        found = (self.span(section, key, label) for section, key, label in places)
        return tuple(span for span in found if span is not None)


def merge(loaded: LoadedManifest, profile: LoadedProfile | None) -> Effective:
    """Lay the manifest's written keys over the profile's, over the defaults."""
    lower = profile.profile if profile is not None else None
    merged: dict[str, Any] = {}
    for section in SECTIONS:
        below, above = _written(lower, section), _written(loaded.manifest, section)
        if above.get("shape") == "natural":
            below.pop("rows", None)  # it was the rows of the shape that this one replaces
        for key, other in (_CONTROLLER, _CONTROLLER[::-1]):
            if key in above:
                below.pop(other, None)  # two spellings of one setting
        merged[section] = type(getattr(loaded.manifest, section))(**{**below, **above})
    return Effective(loaded, profile, Settings(**merged))


def _written(model: Settings | None, section: str) -> dict[str, Any]:
    """The keys that a file wrote in a section, with their values."""
    if model is None:
        return {}
    table = getattr(model, section)
    return {key: getattr(table, key) for key in table.model_fields_set}
