"""The file of a receipt or a certificate: a Sigstore bundle v0.3 around one DSSE envelope.

Source: sigstore/protobuf-specs, `sigstore_bundle.proto`. With a key of one's own
there is no certificate and no transparency log: the material is the key's hint.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import rfc8785
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from power.diagnostics import fail
from power.receipt import dsse, strict_json
from power.receipt.keys import PrivateKey
from power.receipt.shape import refusal

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"

_Base64 = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class _Hint(_Part):
    hint: str


class _Material(_Part):
    publicKey: _Hint  # noqa: N815 - Sigstore's name
    # Entries would claim a log that nothing here can check.
    tlogEntries: list[Any] = Field(max_length=0)  # noqa: N815 - Sigstore's name


class _Signature(_Part):
    keyid: str
    sig: _Base64


class _Envelope(_Part):
    payload: _Base64
    payloadType: str  # noqa: N815 - DSSE's name
    signatures: list[_Signature]


class _Bundle(_Part):
    mediaType: Literal["application/vnd.dev.sigstore.bundle.v0.3+json"]  # noqa: N815
    verificationMaterial: _Material  # noqa: N815 - Sigstore's name
    dsseEnvelope: _Envelope  # noqa: N815 - Sigstore's name


def sign(statement: dict[str, Any], private: PrivateKey) -> bytes:
    """The file: `statement` in RFC 8785 form, signed and bundled, with a final newline."""
    return encode(dsse.seal(rfc8785.dumps(statement), private))


def encode(envelope: dsse.Envelope) -> bytes:
    """The bundle around an envelope."""
    document: dict[str, Any] = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {
            "publicKey": {"hint": envelope.keyid},
            "tlogEntries": [],
        },
        "dsseEnvelope": {
            "payload": base64.b64encode(envelope.payload).decode("ascii"),
            "payloadType": envelope.payload_type,
            "signatures": [
                {
                    "keyid": envelope.keyid,
                    "sig": base64.b64encode(envelope.signature).decode("ascii"),
                }
            ],
        },
    }
    return rfc8785.dumps(document) + b"\n"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a signed document is to a person: its noun, and the command that writes it."""

    noun: str
    made_by: str


RECEIPT = Kind("receipt", "power run")
CERTIFICATE = Kind("certificate", "power certify")


def decode(data: bytes, name: str = "receipt", kind: Kind = RECEIPT) -> dsse.Envelope:
    """The envelope of a bundle; nothing in it is verified yet. `kind` is for messages.

    Raises P620 (not strict JSON, or not the shape of such a bundle), P621 (not
    exactly one signature) and P622 (the hint and the envelope name two keys).
    """
    what = f"`{name}` is no {kind.noun}"
    hint = f"give a `*.sigstore.json` file as `{kind.made_by}` wrote it"
    try:
        bundle = _Bundle.model_validate(strict_json.loads(data))
    except strict_json.JSONRefusedError as error:
        fail("P620", f"{what}: {error}", place=name, hint=hint)
    except ValidationError as error:
        raise refusal(error, "P620", what, name, hint) from error
    signatures = bundle.dsseEnvelope.signatures
    if len(signatures) != 1:
        fail(
            "P621",
            f"a {kind.noun} has exactly one signature",
            place=f"{name}: dsseEnvelope.signatures",
            expected=1,
            found=len(signatures),
            hint=f"give the {kind.noun} as `{kind.made_by}` wrote it",
        )
    signature = signatures[0]
    hint = bundle.verificationMaterial.publicKey.hint
    if hint != signature.keyid:
        fail(
            "P622",
            "the bundle and its envelope name two different keys",
            place=f"{name}: verificationMaterial.publicKey.hint",
            expected=signature.keyid,
            found=hint,
            hint=f"the {kind.noun} was changed after it was made: do not rely on it",
        )
    return dsse.Envelope(
        payload_type=bundle.dsseEnvelope.payloadType,
        payload=_bytes(bundle.dsseEnvelope.payload, f"{name}: dsseEnvelope.payload", kind),
        signature=_bytes(signature.sig, f"{name}: dsseEnvelope.signatures[0].sig", kind),
        keyid=signature.keyid,
    )


def _bytes(text: str, place: str, kind: Kind) -> bytes:
    """Standard base64 in its one canonical form: padded, no spare bits, no other characters."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if base64.b64encode(data).decode("ascii") != text:
        fail(
            "P620",
            "not canonical base64",
            place=place,
            hint=f"give the {kind.noun} as `{kind.made_by}` wrote it",
        )
    return data
