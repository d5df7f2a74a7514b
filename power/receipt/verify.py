"""From the bytes of a receipt to what may be believed of it.

The order is the point: the signature over the payload's bytes first, then what
the payload says, then everything that can be computed again. The payload is
never serialised again: what was signed is what was parsed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from power.artifact.hashing import Progress
from power.diagnostics import Diagnostic, PowerError
from power.receipt.authentic import authenticate, check_window, parse
from power.receipt.certified import Certified, against_certificate
from power.receipt.compare import against_artifacts, against_output, against_plan
from power.receipt.consistency import contradictions
from power.receipt.predicate import PREDICATE_TYPE, Statement
from power.receipt.trust import Trust


@dataclass(frozen=True, slots=True)
class Verified:
    """A receipt that held against everything it was held against.

    receipt_id: SHA-256 (hex) of the payload, the receipt's identity. It does not
        depend on the signature's bytes, of which ECDSA has more than one valid form.
    key: the verifier's name for the key that signed.
    checked: what was computed again, in order: `signature`, `consistency`, and
        `plan`, `output`, `certificate`, `artifacts` where the verifier had them.
    warnings: true statements that a reader should not overlook.
    """

    statement: Statement
    payload: bytes
    receipt_id: str
    key: str
    keyid: str
    checked: tuple[str, ...]
    warnings: tuple[Diagnostic, ...] = field(default=())


def verify_receipt(  # noqa: PLR0913 - what a verifier may hold
    data: bytes,
    trust: Trust,
    *,
    plan: bytes | None = None,
    output: bytes | None = None,
    certificate: Certified | None = None,
    name: str = "receipt",
) -> Verified:
    """Verify a receipt file against keys from outside and whatever else is at hand.

    `plan` and `output` are the bytes of the plan file and of the output text;
    `certificate` one that was verified by itself; `name` is the receipt's name in messages.

    Raises PowerError. Exit 2, cannot judge: P620 (no receipt), P625 (signed, but not
    this predicate). Exit 3, trust broken: P621, P622, P613 (unknown key), P615
    (revoked), P624 (signature), P626 (the statement contradicts itself), P630, P631,
    P633 (plan and output) and what reading the signed plan raises, P634 and P635
    (certificate). Exit 1, policy: P614 (outside the key's window).
    """
    authentic = authenticate(data, trust, name=name)
    envelope, trusted = authentic.envelope, authentic.key
    statement = parse(envelope, Statement, PREDICATE_TYPE, name)
    finished = statement.predicate.timing.finished
    check_window(trusted, finished, f"{name}: predicate.timing.finished")
    found = list(contradictions(statement))
    checked = ["signature", "consistency"]
    if plan is not None:
        found += against_plan(statement, plan)
        checked.append("plan")
    if output is not None:
        found += against_output(statement, output)
        checked.append("output")
    if certificate is not None:
        found += against_certificate(statement, certificate)
        checked.append("certificate")
    if found:
        raise PowerError(tuple(found))
    return Verified(
        statement=statement,
        payload=envelope.payload,
        receipt_id=receipt_id(envelope.payload),
        key=trusted.name,
        keyid=trusted.keyid,
        checked=tuple(checked),
        warnings=_warnings(statement),
    )


def verify_artifacts(
    verified: Verified, roots: Sequence[Path], progress: Progress | None = None
) -> Verified:
    """`verified`, with every model file below `roots` hashed and compared as well.

    Raises P632 for each file with other bytes, and what looking up and reading
    files raises (P22x, P230).
    """
    found = against_artifacts(verified.statement, roots, progress)
    if found:
        raise PowerError(tuple(found))
    return replace(verified, checked=(*verified.checked, "artifacts"))


def receipt_id(payload: bytes) -> str:
    """The identity of a receipt: SHA-256 (hex) of the signed payload."""
    return hashlib.sha256(payload).hexdigest()


def _warnings(statement: Statement) -> tuple[Diagnostic, ...]:
    bounds = statement.predicate.bounds
    bound = bounds.min_acceptance if bounds is not None else None
    if bound is None or bound.met:
        return ()
    execution = statement.predicate.execution
    return (
        Diagnostic(
            code="P616",
            message="the run did not meet the plan's `min_acceptance`",
            place="predicate.bounds.min_acceptance",
            expected=f"at least {bound.required}",
            found=f"{execution.accepted} of {execution.drafted}",
            severity="warning",
        ),
    )
