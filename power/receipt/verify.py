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

from pydantic import ValidationError

from power.artifact.hashing import Progress
from power.diagnostics import Diagnostic, PowerError, fail
from power.receipt import bundle, dsse, keys, strict_json
from power.receipt.compare import against_artifacts, against_output, against_plan
from power.receipt.consistency import contradictions, parse_time
from power.receipt.predicate import PREDICATE_TYPE, STATEMENT_TYPE, Statement
from power.receipt.shape import problems
from power.receipt.trust import Trust, TrustedKey, trust_in


@dataclass(frozen=True, slots=True)
class Verified:
    """A receipt that held against everything it was held against.

    receipt_id: SHA-256 (hex) of the payload, the receipt's identity. It does not
        depend on the signature's bytes, of which ECDSA has more than one valid form.
    key: the verifier's name for the key that signed.
    checked: what was computed again, in order: `signature`, `consistency`, and
        `plan`, `output`, `artifacts` where the verifier had them.
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
    *,
    key: keys.PublicKey | None = None,
    trust: Trust | None = None,
    plan: bytes | None = None,
    output: bytes | None = None,
    name: str = "receipt",
) -> Verified:
    """Verify a receipt file against a key from outside and whatever else is at hand.

    `plan` and `output` are the bytes of the plan file and of the output text;
    `name` is the receipt's name in messages.

    Raises PowerError. Exit 2, cannot judge: P612 (no key given), P620 (no
    receipt), P625 (signed, but not this predicate). Exit 3, trust broken: P621,
    P622, P613 (unknown key), P615 (revoked), P624 (signature), P626 (the
    statement contradicts itself), P630, P631, P633 (plan and output). Exit 1,
    policy: P614 (outside the key's window).
    """
    envelope = bundle.decode(data, name)
    trusted = _trusted(envelope, key, trust, name)
    if not envelope.signed_by(trusted.public):
        fail(
            "P624",
            "the signature does not hold: the receipt was changed, or another key signed it",
            place=name,
            expected=f"a signature by `{trusted.name}` over this payload",
            hint="do not rely on this receipt; ask its maker for the original file",
        )
    _refuse_revoked(trusted, name)
    statement = parse(envelope, name)
    _check_window(trusted, statement, name)
    found = list(contradictions(statement))
    checked = ["signature", "consistency"]
    if plan is not None:
        found += against_plan(statement, plan)
        checked.append("plan")
    if output is not None:
        found += against_output(statement, output)
        checked.append("output")
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


def _trusted(
    envelope: dsse.Envelope, key: keys.PublicKey | None, trust: Trust | None, name: str
) -> TrustedKey:
    if trust is None and key is not None:
        trust = trust_in(key, "the given key")
    if trust is None:
        fail(
            "P612",
            "there is no key to verify with: trust never comes from the receipt itself",
            place=name,
            hint="give the signer's public key with `--key`, or your own list with `--trust`",
        )
    found = trust.find(envelope.keyid)
    if found is None:
        known = ", ".join(f"{k.keyid} ({k.name})" for k in trust.keys)
        fail(
            "P613",
            "the receipt names a key that is not trusted here",
            place=f"{name}: dsseEnvelope.signatures[0].keyid",
            expected=known,
            found=envelope.keyid,
            hint="get the signer's public key from the signer, not from beside the receipt",
        )
    return found


def _refuse_revoked(trusted: TrustedKey, name: str) -> None:
    """Whatever the receipt's date: who holds a stolen key can write any date."""
    if trusted.revoked is not None:
        fail(
            "P615",
            f"the key `{trusted.name}` was revoked: {trusted.revoked.reason}",
            place=name,
            found=f"revoked at {trusted.revoked.at.isoformat()}",
            hint="run the plan again and sign with a key that is still good",
        )


def parse(envelope: dsse.Envelope, name: str) -> Statement:
    """The statement of an envelope whose signature holds; P625 when it is not this predicate."""
    if envelope.payload_type != dsse.PAYLOAD_TYPE:
        fail(
            "P625",
            "the signed payload is not an in-toto statement",
            place=f"{name}: dsseEnvelope.payloadType",
            expected=dsse.PAYLOAD_TYPE,
            found=envelope.payload_type,
            hint="give a receipt that `power run` wrote",
        )
    try:
        document = strict_json.loads(envelope.payload)
    except strict_json.JSONRefusedError as error:
        fail(
            "P625",
            f"the signed payload is refused: {error}",
            place=f"{name}: payload",
            hint="do not rely on this receipt: Power does not sign such a payload",
        )
    if isinstance(document, dict):
        for field_name, expected in (
            ("_type", STATEMENT_TYPE),
            ("predicateType", PREDICATE_TYPE),
        ):
            if document.get(field_name) != expected:
                fail(
                    "P625",
                    f"the statement has another `{field_name}`",
                    place=f"{name}: {field_name}",
                    expected=expected,
                    found=document.get(field_name),
                    hint="a newer Power may know it",
                )
    try:
        return Statement.model_validate(document)
    except ValidationError as error:
        raise PowerError(
            tuple(
                Diagnostic(
                    code="P625",
                    message=f"the signed statement is malformed: {problem.message}",
                    place=f"{name}: {problem.path}",
                    hint="a newer Power may have written it; this one refuses what it cannot read",
                )
                for problem in problems(error)
            )
        ) from error


def _check_window(trusted: TrustedKey, statement: Statement, name: str) -> None:
    """The time is the signer's own word: a window guards against mistakes, not against theft."""
    finished = statement.predicate.timing.finished
    try:
        at = parse_time(finished)
    except ValueError:
        return  # `contradictions` reports it
    early = trusted.not_before is not None and at < trusted.not_before
    late = trusted.not_after is not None and at > trusted.not_after
    if early or late:
        start = trusted.not_before.isoformat() if trusted.not_before else "the beginning"
        end = trusted.not_after.isoformat() if trusted.not_after else "the end of time"
        fail(
            "P614",
            f"the key `{trusted.name}` was not valid {'yet' if early else 'any more'}",
            place=f"{name}: predicate.timing.finished",
            expected=f"from {start} to {end}",
            found=finished,
            hint="widen the window in your trust file if that is your decision",
        )


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
