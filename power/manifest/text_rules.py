"""Rules for the strings of a manifest: names, digests, paths, provenance.

Each function returns its argument or raises a `PydanticCustomError` whose
context may hold `hint`, the next action; what was expected is `Expected`, in
the annotation beside the function.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError

MALFORMED = "malformed"
_LINE_LIMIT = 500
_PATH_LIMIT = 1024
_PART_LIMIT = 255
_GRAMMAR_LIMIT = 64 * 1024
ROWS_LIMIT = 4096
"""Most rows of a pass."""

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
"""The names that manifests, profiles and plans may have: whole, and safe in a path."""
FIGURE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+){1,12}")
FEATURE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,31}")
DECIMAL = re.compile(r"(0|[1-9][0-9]{0,5})(\.[0-9]{1,6})?")
ROW_COUNT = re.compile(r"[1-9][0-9]{0,3}")
HEX64 = re.compile(r"[0-9a-f]{64}")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
# What a person, a shell or another system may take for `.`, `/`, `\` or `:`.
_LOOK_ALIKES = re.compile(
    "[\u2024\u2025\u2044\u2215\u2216\u2236\u29f5\u29f8\u29f9\ua789"
    "\ufe30\ufe52\ufe55\ufe68\uff0e\uff0f\uff1a\uff3c]"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_DRIVE = re.compile(r"[A-Za-z]:")

Items = TypeVar("Items", bound=tuple[Hashable, ...])


@dataclass(frozen=True, slots=True)
class Expected:
    """In an annotation: what a value of this type looks like, for diagnostics.

    pattern: as much of it as a JSON Schema can say, a regular expression of ECMA 262.
    """

    text: str
    pattern: str | None = None

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The schema of the annotated type, with the pattern."""
        found = handler(schema)
        return found if self.pattern is None else {**found, "pattern": self.pattern}


def _refuse(message: str, hint: str | None = None) -> NoReturn:
    # Braces would be read as a template by pydantic: the text travels in the context.
    raise PydanticCustomError(MALFORMED, "{message}", {"message": message, "hint": hint})


def name(value: str) -> str:
    """A name that is safe as a file name and in a URL on every system."""
    if not NAME.fullmatch(value):
        _refuse("is not a name", "use lower-case letters, digits, `.`, `_` and `-`")
    return value


def figure_name(value: str) -> str:
    """The name of a number, with its unit as the last word."""
    if not FIGURE.fullmatch(value):
        _refuse("is not the name of a figure", "write it as `decode_median_tok_s`")
    return value


def feature(value: str) -> str:
    """The name of something a host may have or lack."""
    if not FEATURE.fullmatch(value):
        _refuse("is not the name of a host feature", "write it as `cuda`")
    return value


def decimal(value: str) -> str:
    """A decimal of at most six digits on either side, in its one spelling: `1.50` is `1.5`."""
    if not DECIMAL.fullmatch(value):
        _refuse("is not a decimal", "write digits, with a point and at most six digits behind it")
    return value.rstrip("0").removesuffix(".") if "." in value else value


def row_count(value: str) -> str:
    """A number of rows as the key of a table."""
    if not ROW_COUNT.fullmatch(value) or int(value) > ROWS_LIMIT:
        _refuse("is not a number of rows", "write it as `8`")
    return value


def by_rows(values: dict[str, str]) -> dict[str, str]:
    """A table by row count, in ascending order; each row costs something."""
    for rows, cost in values.items():
        if cost == "0":
            _refuse(f"holds a pass of {rows} rows that costs nothing", "measure it: `power tune`")
    return dict(sorted(values.items(), key=lambda item: int(item[0])))


def sha256(value: str) -> str:
    """A SHA-256 in the one spelling that digests are compared in."""
    if HEX64.fullmatch(value):
        return value
    if HEX64.fullmatch(value.strip().lower()):
        _refuse("is a digest in another spelling", f"write it as `{value.strip().lower()}`")
    digits = value.removeprefix("sha256:")
    if HEX64.fullmatch(digits):
        _refuse("is a digest with a prefix", "leave out `sha256:`")
    _refuse("is not a SHA-256", "`sha256sum FILE` prints it")


def relative_path(value: str) -> str:
    """A path of FORMATS: relative, portable, and unable to leave its root."""
    if not value:
        _refuse("is empty", "name the file, relative to the manifest or an artifact root")
    if not value.isprintable():
        _refuse("holds a control or invisible character", "type the path again by hand")
    if "\\" in value:
        _refuse("holds a backslash", f"write it as `{value.replace(chr(92), '/')}`")
    if value.startswith(("/", "~")):
        _refuse("is absolute", "name the file relative to the manifest or to an artifact root")
    if _DRIVE.match(value) or _SCHEME.match(value):
        _refuse(
            "names a drive or a scheme",
            "name a file below an artifact root; where it came from goes into `source`",
        )
    _one_spelling(value)
    parts = value.split("/")
    if ".." in parts:
        _refuse("climbs with `..`", "put the file below the manifest, or pass `--artifacts DIR`")
    if "" in parts or "." in parts:
        _refuse("holds an empty part or `.`", "write each part of the path once")
    if len(value) > _PATH_LIMIT or any(len(part.encode()) > _PART_LIMIT for part in parts):
        _refuse("is too long", "shorten the path")
    return value


def _one_spelling(path: str) -> None:
    """Refuse what some reader would take for another path than this one."""
    if _PERCENT.search(path):
        _refuse("is percent-encoded", "write the characters themselves")
    if _LOOK_ALIKES.search(path):
        _refuse("holds a look-alike of `.`, `/`, `:` or a backslash", "type the path by hand")
    if unicodedata.normalize("NFC", path) != path:
        _refuse("is not in Unicode's composed form (NFC)", "type the path by hand")


def profile_reference(value: str) -> str:
    """The name of a shipped profile, or a path that ends in `.toml`."""
    if value.endswith(".toml"):
        return relative_path(value)
    if "/" in value or "\\" in value:
        _refuse("is a path that does not end in `.toml`", "name the file with its ending")
    return name(value)


def one_line(value: str) -> str:
    """Text for one line of a report: not empty, printable, not endless."""
    if not value.strip():
        _refuse("is empty", "write it, or leave the key out")
    if not value.isprintable():
        _refuse("holds a control or invisible character", "write it on one line of plain text")
    if len(value) > _LINE_LIMIT:
        _refuse("is too long", f"keep it to {_LINE_LIMIT} characters")
    return value


def origin(value: str) -> str:
    """Provenance: it ends up in plans and receipts, so it must hold no secret."""
    one_line(value)
    try:
        parts = urlsplit(value)
    except ValueError:
        _refuse("is not a valid URL", "copy the address from the source again")
    if parts.scheme in {"http", "https"} and ("@" in parts.netloc or "token=" in parts.query):
        _refuse("holds a password or token", "plans are published: leave the credentials out")
    return value


def grammar(value: str) -> str:
    """GBNF text; whether it is a grammar is for the engine to say."""
    if not value.strip():
        _refuse("is empty", "write a grammar with a `root` rule, or leave the key out")
    if "\0" in value:
        _refuse("holds a NUL character", "remove the character")
    if len(value.encode()) > _GRAMMAR_LIMIT:
        _refuse("is too long", "keep the grammar to 64 KiB")
    return value


def distinct(values: Items) -> Items:
    """Each item once."""
    seen: set[Hashable] = set()
    for item in values:
        if item in seen:
            _refuse(f"holds `{item}` twice", "name each once")
        seen.add(item)
    return values
