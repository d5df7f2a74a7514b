"""The signed index of an evidence package: every file of it by digest, under one signature.

An in-toto statement in the same envelope as a receipt; its subjects are the files
(docs/predicates/evidence-v1.md, in field order).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from power.diagnostics import fail
from power.evidence.parts import FileName, Part
from power.receipt import bundle
from power.receipt.authentic import authenticate, parse
from power.receipt.files import PACKAGE_INDEX
from power.receipt.keys import PrivateKey
from power.receipt.predicate import STATEMENT_TYPE, Digest
from power.receipt.trust import Trust

INDEX = PACKAGE_INDEX
PREDICATE_TYPE: Final = "urn:power:evidence:v1"
_KIND = bundle.Kind("index", "power evidence pack")


class FileSubject(Part):
    """One file of the package."""

    name: FileName
    digest: Digest


class Contents(Part):
    """What the files are: reports of benches, comparisons of them, and quality matrices."""

    reports: list[FileName]
    comparisons: list[FileName]
    matrices: Annotated[list[FileName], Field(min_length=1)] | None = None


class IndexStatement(Part):
    """in-toto Statement v1; the subjects are sorted by name."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: Annotated[list[FileSubject], Field(min_length=1)]
    predicateType: Literal["urn:power:evidence:v1"]  # noqa: N815 - in-toto's
    predicate: Contents

    @property
    def files(self) -> dict[str, str]:
        """SHA-256 by file name."""
        return {subject.name: subject.digest.sha256 for subject in self.subject}


def sign_index(
    files: Mapping[str, str],
    reports: Sequence[str],
    comparisons: Sequence[str],
    key: PrivateKey,
    *,
    matrices: Sequence[str] = (),
) -> bytes:
    """The index file; the same files give the same payload."""
    statement = IndexStatement(
        type_=STATEMENT_TYPE,
        predicateType=PREDICATE_TYPE,
        subject=[
            FileSubject(name=name, digest=Digest(sha256=digest))
            for name, digest in sorted(files.items())
        ],
        predicate=Contents(
            reports=sorted(reports),
            comparisons=sorted(comparisons),
            matrices=sorted(matrices) or None,
        ),
    )
    return bundle.sign(statement.document(), key)


def open_index(data: bytes, trust: Trust, name: str) -> tuple[IndexStatement, str]:
    """The index in `data`, whose signature holds, and the verifier's name for its key.

    Raises PowerError: as `authenticate` and `parse`, and P853 for a file named twice.
    """
    authentic = authenticate(data, trust, name=name, kind=_KIND)
    statement = parse(authentic.envelope, IndexStatement, PREDICATE_TYPE, name, _KIND)
    if len(statement.files) != len(statement.subject):
        fail(
            "P853",
            "the index names a file twice",
            place=name,
            hint="give a folder that `power evidence pack` packed",
        )
    return statement, authentic.key.name
