"""Who signed a document, and whether its payload is the statement that was expected.

The order is the point: the signature over the payload's bytes first, then what
the payload says. The payload is never serialised again: what was signed is what
was parsed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from power.diagnostics import fail
from power.receipt import bundle, dsse, strict_json
from power.receipt.bundle import RECEIPT, Kind
from power.receipt.consistency import parse_time
from power.receipt.predicate import STATEMENT_TYPE
from power.receipt.shape import refusal
from power.receipt.trust import Trust, TrustedKey

Model = TypeVar("Model", bound=BaseModel)

_OTHERS = {
    "urn:power:speculative-run:v1": "this is a receipt: `power verify` takes it",
    "urn:power:exactness-certificate:v1": "this is a certificate: `--certificate` takes it",
    "urn:power:evidence:v1": "this is the index of an evidence package: name its folder",
}
"""What to do with a document of another predicate."""


@dataclass(frozen=True, slots=True)
class Authentic:
    """An envelope whose signature holds, and the verifier's key that made it."""

    envelope: dsse.Envelope
    key: TrustedKey


def authenticate(data: bytes, trust: Trust, *, name: str, kind: Kind = RECEIPT) -> Authentic:
    """The envelope in `data`, signed by a key of `trust`; its payload is not read.

    Raises PowerError: P620 (no bundle), P621, P622, P613 (unknown key), P615
    (revoked), P624 (signature).
    """
    envelope = bundle.decode(data, name, kind)
    trusted = _trusted(envelope, trust, name, kind)
    if not envelope.signed_by(trusted.public):
        fail(
            "P624",
            f"the signature does not hold: the {kind.noun} was changed, or another key signed it",
            place=name,
            expected=f"a signature by `{trusted.name}` over this payload",
            hint=f"do not rely on this {kind.noun}; ask its maker for the original file",
        )
    _refuse_revoked(trusted, name)
    return Authentic(envelope, trusted)


def _trusted(envelope: dsse.Envelope, trust: Trust, name: str, kind: Kind) -> TrustedKey:
    found = trust.find(envelope.keyid)
    if found is None:
        known = ", ".join(f"{k.keyid} ({k.name})" for k in trust.keys)
        fail(
            "P613",
            f"the {kind.noun} names a key that is not trusted here",
            place=f"{name}: dsseEnvelope.signatures[0].keyid",
            expected=known,
            found=envelope.keyid,
            hint=f"get the signer's public key from the signer, not from beside the {kind.noun}",
        )
    return found


def _refuse_revoked(trusted: TrustedKey, name: str) -> None:
    """Whatever the document's date: who holds a stolen key can write any date."""
    if trusted.revoked is not None:
        fail(
            "P615",
            f"the key `{trusted.name}` was revoked: {trusted.revoked.reason}",
            place=name,
            found=f"revoked at {trusted.revoked.at.isoformat()}",
            hint="make it again and sign with a key that is still good",
        )


def parse(
    envelope: dsse.Envelope, model: type[Model], predicate: str, name: str, kind: Kind = RECEIPT
) -> Model:
    """The statement of an envelope whose signature holds; P625 when it is not `predicate`'s."""
    if envelope.payload_type != dsse.PAYLOAD_TYPE:
        fail(
            "P625",
            "the signed payload is not an in-toto statement",
            place=f"{name}: dsseEnvelope.payloadType",
            expected=dsse.PAYLOAD_TYPE,
            found=envelope.payload_type,
            hint=f"give a {kind.noun} that `{kind.made_by}` wrote",
        )
    try:
        document = strict_json.loads(envelope.payload)
    except strict_json.JSONRefusedError as error:
        fail(
            "P625",
            f"the signed payload is refused: {error}",
            place=f"{name}: payload",
            hint=f"do not rely on this {kind.noun}: Power does not sign such a payload",
        )
    if isinstance(document, dict):
        for field_name, expected in (
            ("_type", STATEMENT_TYPE),
            ("predicateType", predicate),
        ):
            if document.get(field_name) != expected:
                fail(
                    "P625",
                    f"the statement has another `{field_name}`",
                    place=f"{name}: {field_name}",
                    expected=expected,
                    found=document.get(field_name),
                    hint=_OTHERS.get(str(document.get(field_name)), "a newer Power may know it"),
                )
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise refusal(
            error,
            "P625",
            "the signed statement is malformed",
            name,
            "a newer Power may have written it; this one refuses what it cannot read",
        ) from error


def check_window(trusted: TrustedKey, finished: str, place: str) -> None:
    """Refuse (P614) a document of a time when its key was not to be used.

    The time is the signer's own word: a window guards against mistakes, not against theft.
    """
    try:
        at = parse_time(finished)
    except ValueError:
        return  # the statement contradicts itself, which is reported elsewhere
    early = trusted.not_before is not None and at < trusted.not_before
    late = trusted.not_after is not None and at > trusted.not_after
    if early or late:
        start = trusted.not_before.isoformat() if trusted.not_before else "the beginning"
        end = trusted.not_after.isoformat() if trusted.not_after else "the end of time"
        fail(
            "P614",
            f"the key `{trusted.name}` was not valid {'yet' if early else 'any more'}",
            place=place,
            expected=f"from {start} to {end}",
            found=finished,
            hint="widen the window in your trust file if that is your decision",
        )
