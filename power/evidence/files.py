"""Reading reports and comparisons back, strictly."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from power.diagnostics import fail
from power.evidence.parts import Part, naming_schema
from power.manifest.files import UnreadableError, nearby, read_regular
from power.receipt import strict_json
from power.receipt.shape import refusal

SIZE_LIMIT = 256 << 20

Document = TypeVar("Document", bound=Part)
_HINT = "give a file that `power bench`, `power compare` or `power quality` wrote"


def read_bytes(path: Path) -> bytes:
    """The bytes of a document; raises PowerError P801 where it cannot be read."""
    try:
        return read_regular(path, SIZE_LIMIT)
    except UnreadableError as error:
        hint = (nearby(path) if error.why == "absent" else None) or _HINT
        fail("P801", f"the report cannot be read: {error}", place=str(path), hint=hint)


def parse(data: bytes, name: str, kind: type[Document]) -> Document:
    """The document in `data`; `name` is its file's in messages.

    Raises PowerError P801 for what is no such document, all its problems at once.
    """
    try:
        return kind.model_validate(naming_schema(strict_json.loads(data, SIZE_LIMIT)))
    except strict_json.JSONRefusedError as error:
        fail("P801", f"`{name}` is no report: {error}", place=name, hint=_HINT)
    except ValidationError as error:
        raise refusal(error, "P801", f"`{name}` is no report", name, _HINT) from error
