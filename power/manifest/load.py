"""Read a manifest or a profile: what is malformed in it at once, then what breaks a rule.

`load_manifest(path)` and `load_profile(path)` read files; `parse_manifest` and
`parse_profile` take bytes that came from elsewhere (a revision of a repository).
All raise `PowerError` with codes P101 to P119 and P141 to P146.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from power.diagnostics import Diagnostic, PowerError, Span, fail
from power.manifest.file_rules import manifest_rules, profile_rules
from power.manifest.model import Manifest, Settings
from power.manifest.problems import diagnose
from power.manifest.profile import Profile
from power.manifest.read import decode, read_bytes
from power.manifest.source import Source
from power.manifest.syntax import parse

Model = TypeVar("Model", bound=Settings)
Kind = Literal["manifest", "profile", "plan"]


class _Located:
    """What has a source: its text, and the places in it."""

    __slots__ = ()
    source: Source

    @property
    def text(self) -> str:
        """The file's text."""
        return self.source.text

    def span(self, *keys: str | int, label: str = "") -> Span:
        """Where the value at `keys` stands."""
        return self.source.span(*keys, label=label)


@dataclass(frozen=True, slots=True)
class LoadedManifest(_Located):
    """A manifest with the text it came from. `path` is None for text without a file."""

    manifest: Manifest
    source: Source
    path: Path | None = None

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """What its own rules find."""
        return manifest_rules(self.manifest, self.source)


@dataclass(frozen=True, slots=True)
class LoadedProfile(_Located):
    """A profile with the text it came from. `path` is None for text without a file."""

    profile: Profile
    source: Source
    path: Path | None = None

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """What its own rules find."""
        return profile_rules(self.profile, self.source)


Loaded = TypeVar("Loaded", LoadedManifest, LoadedProfile)


def load_manifest(path: Path) -> LoadedManifest:
    """The manifest in the file at `path`."""
    return _sound(read_manifest(path))


def load_profile(path: Path) -> LoadedProfile:
    """The profile in the file at `path`."""
    return _sound(read_profile(path))


def parse_manifest(data: bytes, name: str) -> LoadedManifest:
    """The manifest in `data`; `name` stands for the file in diagnostics."""
    return _sound(_well_formed_manifest(data, name))


def parse_profile(data: bytes, name: str) -> LoadedProfile:
    """The profile in `data`; `name` stands for the file in diagnostics."""
    return _sound(_well_formed_profile(data, name))


def read_manifest(path: Path) -> LoadedManifest:
    """As `load_manifest`, its rules (`problems`) not looked at yet."""
    return _well_formed_manifest(read_bytes(path, "manifest"), str(path), path)


def read_profile(path: Path) -> LoadedProfile:
    """As `load_profile`, its rules (`problems`) not looked at yet."""
    return _well_formed_profile(read_bytes(path, "profile"), str(path), path)


def _well_formed_manifest(data: bytes, name: str, path: Path | None = None) -> LoadedManifest:
    source, values = _values(data, name, "manifest")
    return LoadedManifest(_validate(Manifest, values, source), source, path)


def _well_formed_profile(data: bytes, name: str, path: Path | None = None) -> LoadedProfile:
    source, values = _values(data, name, "profile")
    return LoadedProfile(_validate(Profile, values, source), source, path)


def kind_of(values: Mapping[str, Any]) -> Kind | None:
    """What a parsed document is, by the keys that only one kind has; None if by none."""
    if "plan_sha256" in values or "lock" in values:
        return "plan"
    if "target" in values or "draft" in values:
        return "manifest"
    return "profile" if "summary" in values or "evidence" in values else None


def _values(data: bytes, name: str, what: Literal["manifest", "profile"]) -> tuple[Source, Any]:
    source = Source(decode(data, name, what), name, what)
    values = parse(source.text, name, what)
    kind = kind_of(values)
    if kind is not None and kind != what:
        fail(
            "P120",
            f"this is a {kind}, not a {what}",
            place=name,
            expected=f"a {what}",
            found=f"a {kind}",
            hint=_WHERE_IT_GOES[kind],
        )
    return source, values


_WHERE_IT_GOES = {
    "plan": "`power run` and `power show` take a plan",
    "profile": "name it in a manifest's `profile`, or pass it as `--profile`",
    "manifest": "`power compile` takes a manifest",
}


def _validate(model: type[Model], values: Mapping[str, Any], source: Source) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = diagnose(error, model, values, source)
    raise PowerError(problems)


def _sound(loaded: Loaded) -> Loaded:
    problems = loaded.problems
    if problems:
        raise PowerError(problems)
    return loaded
