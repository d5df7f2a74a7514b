"""The `d2t` table of a reduced head: the token that each of its rows is."""

from __future__ import annotations

from power.artifact.findings import Findings
from power.artifact.header import Header
from power.artifact.values import int64_items

TABLE = "d2t"
_HINT = "use a draft that was made for this target"


def check_ids(findings: Findings, header: Header, size: int | None) -> None:
    """Check that the table of `header`, which has one, names different tokens below `size`.

    I64, one dimension; `size` is None where no vocabulary is known. An id outside
    ends the engine's process, and one that comes twice is drafted wrongly.
    """
    tensor = header.tensors[TABLE]
    rows = tensor.shape[0]
    if tensor.type.name != "I64" or len(tensor.shape) != 1:
        bad_table(
            findings,
            header,
            "`d2t` is no list of 64-bit ids",
            expected="I64 of one dimension",
            found=tensor.type.name,
        )
        return
    data = header.contents.get(TABLE)
    if data is None:
        bad_table(
            findings,
            header,
            "`d2t` is larger than any vocabulary",
            expected="at most 1,048,576 ids",
            found=rows,
        )
        return
    ids = [int(number) for number in int64_items(data)]
    outside = next((row for row, number in enumerate(ids) if not _within(number, size)), None)
    if outside is not None:
        vocabulary = "any vocabulary" if size is None else f"the vocabulary of {size}"
        bad_table(
            findings,
            header,
            f"row {outside} of `d2t` is token {ids[outside]}, outside {vocabulary}",
            expected="0 or more" if size is None else f"0 to {size - 1}",
            found=ids[outside],
        )
    if len(set(ids)) < len(ids):
        bad_table(
            findings,
            header,
            "`d2t` names a token twice",
            expected="different ids",
            found=f"{len(set(ids))} of {rows}",
        )


def bad_table(
    findings: Findings, header: Header, message: str, *, expected: object, found: object
) -> None:
    """Add P333 at the table."""
    tensor = header.tensors[TABLE]
    findings.add(
        "P333",
        message,
        place=f"{tensor.file}: {TABLE} at byte {tensor.at}",
        expected=expected,
        found=found,
        hint=_HINT,
    )


def _within(number: int, size: int | None) -> bool:
    return number >= 0 and (size is None or number < size)
