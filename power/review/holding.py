"""What holds in a document: every setting with the value that a run would see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from power.manifest.merge import Effective
from power.manifest.model import SECTIONS
from power.review.documents import Document

Origin = Literal["manifest", "profile", "default", "derived", "plan"]
"""Which file said it; `derived`: settled by other values, as B by K."""

# Settings whose default other values settle: the merged files know them.
_DERIVED = ("graph.batch", "graph.rows", "graph.prefill_batch", "sampling.max_tokens")


@dataclass(frozen=True, slots=True)
class Held:
    """A setting's value (None: not applied) and where it came from."""

    value: Any
    origin: Origin


class Holding:
    """The settings that hold, by dotted path in the order of the file's models.

    A view over a manifest with its profile and the defaults, a profile with the
    defaults, or a plan; empty for a trust file.
    """

    def __init__(self, document: Document) -> None:
        self.kind = document.kind
        self.complete = not document.remarks
        self.settings: dict[str, Held] = (
            dict(_of_plan(document.content))
            if document.effective is None
            else dict(_of_files(document))
        )
        self._implied = None if document.effective is None else document.effective.implied

    def get(self, path: str) -> Any:
        """The value at `path`, None where it is not applied."""
        held = self.settings.get(path)
        return None if held is None else held.value

    def origin(self, path: str) -> Origin:
        """Which file the value at `path` came from."""
        held = self.settings.get(path)
        return "default" if held is None else held.origin

    @property
    def strategy(self) -> str | None:
        """What will run; None where only the artifacts tell (`auto` without a draft)."""
        if self.kind == "plan":
            return str(self.get("speculation.strategy"))
        return self._implied

    @property
    def k(self) -> int | None:
        """K, the most tokens of a proposal; None where nothing proposes."""
        return None if self.strategy == "off" else self.get("speculation.spec_draft_max")

    @property
    def s(self) -> int | None:
        """S, the snapshots that were asked for; None where nothing proposes."""
        asked: int | None = self.get("speculation.spec_mtp_recurrent_snapshots")
        return None if self.strategy == "off" else asked

    @property
    def trims(self) -> bool | None:
        """Whether the target drops any suffix (a pure KV cache); None where nobody knows yet."""
        rollback = self.get("speculation.rollback")
        return None if rollback is None else rollback == "trim"

    @property
    def may_replay(self) -> bool:
        """Whether a rejection can be longer than the window: K past S, and no pure KV cache."""
        return self.k is not None and self.s is not None and self.k > self.s and not self.trims

    @property
    def fixed_rows(self) -> int | None:
        """Rows of every pass; None for a natural shape."""
        return self.get("graph.rows") if self.get("graph.shape") == "fixed" else None

    @property
    def pass_rows(self) -> str:
        """The row counts of verification passes, in words."""
        rows = self.fixed_rows
        if rows is not None:
            return str(rows)
        return "1" if self.k is None else f"1 to {self.k + 1}"


def _of_files(document: Document) -> Iterator[tuple[str, Held]]:
    effective = document.effective
    if effective is None:
        return
    derived = {
        "graph.batch": effective.batch,
        "graph.rows": effective.rows,
        "graph.prefill_batch": effective.prefill_batch,
        "sampling.max_tokens": effective.max_tokens,
    }
    for section in SECTIONS:
        for key, found in getattr(effective.settings, section).model_dump(mode="json").items():
            origin: Origin = _origin(effective, section, key, document)
            for path, value in _flat(f"{section}.{key}", found):
                if value is None and path in _DERIVED and derived[path] is not None:
                    yield path, Held(derived[path], "derived")
                else:
                    yield path, Held(value, origin)


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A table inside a section, by the paths of its values."""
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, inner in value.items():
        yield from _flat(f"{path}.{key}", inner)


def _origin(effective: Effective, section: str, key: str, document: Document) -> Origin:
    layer = effective.origin(section, key)
    # A profile on its own is laid under a manifest that says nothing.
    return layer if layer != "manifest" or document.kind == "manifest" else "default"


def _of_plan(content: Mapping[str, Any]) -> Iterator[tuple[str, Held]]:
    for section in ("speculation", "graph", "host", "sampling", "exactness", "bounds", "preflight"):
        for key, found in content.get(section, {}).items():
            for path, value in _flat(f"{section}.{key}", found):
                yield path, Held(value, "plan")
