"""What every document of this room is made of: strict, frozen, without floats."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from power.receipt.predicate import Count, Decimal, Hex, Time

__all__ = ["Count", "Decimal", "FileName", "Hex", "Name", "Part", "Text", "Time"]

# A file of a report lies beside it or one folder below: never elsewhere.
_FILE_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?"
FileName = Annotated[str, Field(pattern=f"^{_FILE_NAME}$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]
Text = Annotated[str, Field(min_length=1, max_length=1000)]


def is_file_name(text: str) -> bool:
    """Whether `text` can be a FileName."""
    return re.fullmatch(_FILE_NAME, text) is not None


class Part(BaseModel):
    """A table of a document. Unknown keys, coercions and changes are refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)

    def document(self) -> dict[str, Any]:
        """It as JSON values, absent fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def naming_schema(values: object) -> object:
    """Parsed JSON to read a document from: a `schema` that is left out is not the right one."""
    return {"schema": None} | values if isinstance(values, dict) else values


class FileRef(Part):
    """A file beside a report, and the SHA-256 of its bytes."""

    file: FileName
    sha256: Hex
