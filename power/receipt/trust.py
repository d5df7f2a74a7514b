"""The verifier's own list of keys: `trust.toml`. Trust never comes from a receipt.

schema = 1

[key.release]                         # the name is the verifier's
public_key = "release.pub"            # a file beside this one, or PEM text
not_before = 2026-01-01T00:00:00Z     # optional, both ends included
not_after  = 2026-12-31T23:59:59Z
revoked    = { at = 2026-08-01T00:00:00Z, reason = "laptop stolen" }
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from power.diagnostics import Diagnostic, PowerError, fail
from power.manifest import read, syntax
from power.manifest.source import Source
from power.receipt import keys
from power.receipt.shape import problems

KeyAt = Callable[[str], keys.PublicKey]
"""The path of a `.pub` file, relative to a trust file -> its key. Raises PowerError."""

_WHAT = "trust file"
_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Revocation:
    """When and why a key was revoked."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """One key and what its verifier decided about it; times are in UTC or carry an offset."""

    name: str
    public: keys.PublicKey
    keyid: str
    not_before: datetime | None = None
    not_after: datetime | None = None
    revoked: Revocation | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """The keys a verifier holds; no two have the same keyid."""

    keys: tuple[TrustedKey, ...]

    def find(self, keyid: str) -> TrustedKey | None:
        """The key with this keyid, or None."""
        return next((key for key in self.keys if key.keyid == keyid), None)


def trust_in(public: keys.PublicKey, name: str = "the given key") -> Trust:
    """Trust in one key, without a window (`power verify --key`)."""
    return Trust((TrustedKey(name, public, keys.keyid(public)),))


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class _Revoked(_Part):
    at: AwareDatetime
    reason: _Text


class _Key(_Part):
    public_key: _Text
    not_before: AwareDatetime | None = None
    not_after: AwareDatetime | None = None
    revoked: _Revoked | None = None


class TrustFile(_Part):
    """A verifier's own list of keys."""

    # Not Literal[1], which `true` would equal.
    schema_: Annotated[int, Field(ge=1, le=1)] = Field(alias="schema")
    key: dict[_Text, _Key] = Field(min_length=1)


def load_trust(path: Path) -> Trust:
    """Read a trust file; a `public_key` that is a path is relative to its folder.

    Raises P101 to P111 (unreadable, not TOML), P610 (wrong keys or values, all of
    them at once), P603 and P605 (a key that is none, or cannot be read).
    """
    return parse_trust(
        read.read_bytes(path, _WHAT), str(path), lambda name: keys.load_public(path.parent / name)
    )


def parse_trust(data: bytes, name: str, key_at: KeyAt) -> Trust:
    """The trust file in `data`, called `name` in messages; raises as `load_trust`."""
    text = read.decode(data, name, _WHAT)
    source = Source(text, name, _WHAT)
    values = syntax.parse(text, name, _WHAT)
    try:
        file = TrustFile.model_validate(values)
    except ValidationError as error:
        raise PowerError(_diagnose(error, source)) from error
    trusted: dict[str, TrustedKey] = {}
    for called, entry in file.key.items():
        key = _trusted(called, entry, key_at, source)
        if key.keyid in trusted:
            _refuse(
                source,
                ("key", called, "public_key"),
                f"`{called}` and `{trusted[key.keyid].name}` are the same key",
                hint="keep one of the two tables",
            )
        trusted[key.keyid] = key
    return Trust(tuple(trusted.values()))


def _trusted(name: str, entry: _Key, key_at: KeyAt, source: Source) -> TrustedKey:
    place = ("key", name)
    if entry.not_before and entry.not_after and entry.not_after < entry.not_before:
        _refuse(
            source,
            (*place, "not_after"),
            f"the window of `{name}` ends before it begins",
            hint="exchange `not_before` and `not_after`",
        )
    text = entry.public_key
    if text.lstrip().startswith("-----BEGIN"):
        public = keys.parse_public(text.encode("utf-8"), f"`key.{name}.public_key`")
    elif "\0" in text or "\n" in text:
        _refuse(
            source,
            (*place, "public_key"),
            f"the public key of `{name}` is neither PEM text nor a path",
            hint="give the `.pub` file, or its text in triple quotes",
        )
    else:
        public = key_at(text)
    revoked = Revocation(entry.revoked.at, entry.revoked.reason) if entry.revoked else None
    return TrustedKey(name, public, keys.keyid(public), entry.not_before, entry.not_after, revoked)


def _refuse(source: Source, where: tuple[str, ...], message: str, hint: str) -> None:
    fail("P610", message, spans=(source.span(*where),), hint=hint)


def _diagnose(error: ValidationError, source: Source) -> tuple[Diagnostic, ...]:
    """One P610 a problem, in the order of the file."""
    found = [
        Diagnostic(
            code="P610",
            message=problem.message,
            spans=(source.span(*problem.keys, at=_pointer(problem.kind)),),
            hint=_hint(problem.keys, problem.kind),
        )
        for problem in problems(error)
    ]
    return tuple(sorted(found, key=lambda d: (d.spans[0].line, d.spans[0].column)))


def _pointer(kind: str) -> Literal["key", "value"]:
    return "key" if kind in {"missing", "extra_forbidden"} else "value"


def _hint(where: tuple[Any, ...], kind: str) -> str:
    if where[-1:] in {("not_before",), ("not_after",), ("at",)}:
        return "write a time with its offset and without quotes: `2026-01-31T00:00:00Z`"
    if kind == "missing" and where == ("schema",):
        return "write `schema = 1` at the top"
    if kind == "missing" and where == ("key",):
        return "write one table for each key: `[key.NAME]`"
    return "see docs/reference/trust.md for the keys of a trust file"
