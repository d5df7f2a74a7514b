"""Verification: what holds, what each kind of change breaks, and who decides about trust."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from power.cli.trusting import given_trust
from power.diagnostics import ExitCode, PowerError
from power.receipt import bundle, dsse, keys
from power.receipt.keys import PrivateKey
from power.receipt.trust import Revocation, Trust, TrustedKey, trust_in
from tests.receipt import samples
from tests.receipt.documents import payload_of, put, tampered
from tests.receipt.signing import (
    PLAN,
    PUBLIC,
    RECEIPT,
    STATEMENT,
    codes,
    refusal,
    resigned,
    verify,
)


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_a_receipt_holds(kind: str) -> None:
    private = samples.KEYS[kind]
    verified = verify(
        bundle.sign(STATEMENT, private),
        trust=trust_in(private.public_key()),
        plan=PLAN,
        output=samples.OUTPUT,
    )
    assert verified.statement.document() == STATEMENT
    assert verified.keyid == keys.keyid(private.public_key())
    assert verified.checked == ("signature", "consistency", "plan", "output")
    assert verified.warnings == ()


def test_the_signed_bytes_are_kept() -> None:
    assert verify(RECEIPT).payload == payload_of(RECEIPT) == rfc8785.dumps(STATEMENT)


@pytest.mark.complaint(n=24)
@pytest.mark.parametrize(("name", "statement"), list(tampered(STATEMENT)))
def test_a_changed_statement_fails_under_the_old_signature(name: str, statement: Any) -> None:
    envelope = bundle.decode(RECEIPT)
    forged = replace(envelope, payload=rfc8785.dumps(statement))
    assert forged.payload != envelope.payload
    error = refusal(bundle.encode(forged))
    assert codes(error) == {"P624"}
    assert error.exit_code is ExitCode.BROKEN_TRUST


@pytest.mark.parametrize(("name", "document"), list(tampered(json.loads(RECEIPT))))
def test_a_changed_bundle_fails(name: str, document: Any) -> None:
    error = refusal(json.dumps(document).encode())
    assert error.exit_code in {ExitCode.CANNOT_JUDGE, ExitCode.BROKEN_TRUST}


@pytest.mark.complaint(n=24)
def test_every_byte_of_a_receipt_matters() -> None:
    """A flipped bit anywhere is refused, or leaves exactly what was signed."""
    refused: set[str] = set()
    for index in range(len(RECEIPT)):
        data = bytearray(RECEIPT)
        data[index] ^= 1
        try:
            found = verify(bytes(data)).payload
        except PowerError as error:
            refused |= codes(error)
        else:
            assert found == payload_of(RECEIPT)
    assert refused == {"P620", "P622", "P624"}


def test_another_white_space_is_the_same_receipt() -> None:
    pretty = json.dumps(json.loads(RECEIPT), indent=2).encode()
    assert verify(pretty).receipt_id == verify(RECEIPT).receipt_id


def test_another_key_with_the_same_name_fails() -> None:
    forger = samples.ed25519_key("forger")
    forged = replace(dsse.seal(payload_of(RECEIPT), forger), keyid=keys.keyid(PUBLIC))
    assert codes(refusal(bundle.encode(forged))) == {"P624"}


@pytest.mark.parametrize("key", [samples.ed25519_key("other"), samples.KEYS["p256"]])
def test_an_unknown_key_fails(key: PrivateKey) -> None:
    error = refusal(RECEIPT, trust=trust_in(key.public_key()))
    assert codes(error) == {"P613"}
    assert error.exit_code is ExitCode.BROKEN_TRUST
    assert error.diagnostics[0].found == keys.keyid(PUBLIC)


@pytest.mark.complaint(n=24)
def test_no_key_is_no_trust() -> None:
    with pytest.raises(PowerError) as refused:
        given_trust(None, None, "r.json")
    error = refused.value
    assert codes(error) == {"P612"}
    assert error.exit_code is ExitCode.CANNOT_JUDGE


def test_an_ed25519_signature_with_a_p256_keyid_fails() -> None:
    private = samples.KEYS["p256"]
    mixed = replace(bundle.decode(RECEIPT), keyid=keys.keyid(private.public_key()))
    assert codes(refusal(bundle.encode(mixed), trust=trust_in(private.public_key()))) == {"P624"}


def test_ecdsa_twins_are_one_receipt() -> None:
    """(r, s) and (r, n - s) are both valid; the identity comes from the payload."""
    private = samples.KEYS["p256"]
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    envelope = dsse.seal(payload_of(RECEIPT), private)
    r, s = decode_dss_signature(envelope.signature)
    twin = replace(envelope, signature=encode_dss_signature(r, order - s))
    trust = trust_in(private.public_key())
    one, two = (verify(bundle.encode(e), trust=trust) for e in (envelope, twin))
    assert bundle.encode(envelope) != bundle.encode(twin)
    assert one.receipt_id == two.receipt_id == verify(RECEIPT).receipt_id


# --- trust -----------------------------------------------------------------------------


def trusted(**more: Any) -> Trust:
    return Trust((replace(trust_in(PUBLIC, "release").keys[0], **more),))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_key_is_found_among_others() -> None:
    others = trust_in(samples.KEYS["p256"].public_key(), "other").keys
    found = verify(RECEIPT, trust=Trust(others + trusted().keys))
    assert found.key == "release"


@pytest.mark.parametrize(
    ("window", "holds"),
    [
        ({"not_before": "2026-08-23T10:11:13"}, True),  # the second the run ended
        ({"not_after": "2026-08-23T10:11:13"}, True),
        ({"not_before": "2026-08-23T10:11:14"}, False),
        ({"not_after": "2026-08-23T10:11:12"}, False),
        ({"not_before": "2026-08-01T00:00:00", "not_after": "2026-08-31T00:00:00"}, True),
    ],
)
def test_a_window_is_policy(window: dict[str, str], holds: bool) -> None:
    trust = trusted(**{name: at(text) for name, text in window.items()})
    if holds:
        assert verify(RECEIPT, trust=trust).key == "release"
        return
    error = refusal(RECEIPT, trust=trust)
    assert codes(error) == {"P614"}
    assert error.exit_code is ExitCode.NO


@pytest.mark.parametrize("when", ["2020-01-01T00:00:00", "2099-01-01T00:00:00"])
def test_a_revoked_key_is_refused_whatever_the_date(when: str) -> None:
    error = refusal(RECEIPT, trust=trusted(revoked=Revocation(at(when), "stolen")))
    assert codes(error) == {"P615"}
    assert error.exit_code is ExitCode.BROKEN_TRUST
    assert "stolen" in error.diagnostics[0].message


def test_a_forged_receipt_of_a_revoked_key_is_a_forgery_first() -> None:
    forged = replace(bundle.decode(RECEIPT), payload=b"{}")
    trust = trusted(revoked=Revocation(at("2020-01-01T00:00:00"), "stolen"))
    assert codes(refusal(bundle.encode(forged), trust=trust)) == {"P624"}


def test_a_time_that_is_none_is_a_contradiction_under_any_window() -> None:
    statement = put(STATEMENT, ("predicate", "timing", "finished"), "2026-02-30T00:00:00Z")
    error = refusal(resigned(statement), trust=trusted(not_after=at("2020-01-01T00:00:00")))
    assert codes(error) == {"P626"}


# --- the file ----------------------------------------------------------------------------


def document(**changes: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(RECEIPT)
    return value | changes


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"\xff",
        b"\xef\xbb\xbf" + RECEIPT,
        RECEIPT[:-3],
        RECEIPT + b"{}",
        RECEIPT.replace(b'"hint":', b'"hint":"x","hint":'),
        b"[" * 100_000,
        b'{"a":' * 17 + b"1" + b"}" * 17,
        b'"' + b'\\"' * 500_000,
        b" " * (1 << 20) + RECEIPT,
        b'{"a":' + b"9" * 10_000 + b"}",
        b'{"a":1e999}',
        b'{"a":NaN}',
        b'{"a":"\\ud800"}',
        json.dumps(document(more=1)).encode(),
        json.dumps(document(mediaType="application/vnd.dev.sigstore.bundle.v0.2+json")).encode(),
        json.dumps(put(document(), ("verificationMaterial", "tlogEntries"), [{}])).encode(),
        json.dumps(put(document(), ("dsseEnvelope", "payload"), "e30")).encode(),
        json.dumps(put(document(), ("dsseEnvelope", "payload"), "e3 0=")).encode(),
        json.dumps(put(document(), ("dsseEnvelope", "payload"), "_-8=")).encode(),
        json.dumps(put(document(), ("dsseEnvelope", "payload"), "e31=")).encode(),
    ],
)
def test_what_is_no_receipt_cannot_be_judged(data: bytes) -> None:
    error = refusal(data)
    assert codes(error) == {"P620"}
    assert error.exit_code is ExitCode.CANNOT_JUDGE


def test_of_a_file_of_another_kind_only_that_is_said() -> None:
    (found,) = refusal(b'{"schema": "power.bench-report.v1", "arms": []}').diagnostics
    assert found.place == "receipt: mediaType"


@pytest.mark.parametrize("count", [0, 2])
def test_exactly_one_signature(count: int) -> None:
    signatures = document()["dsseEnvelope"]["signatures"] * count
    data = json.dumps(put(document(), ("dsseEnvelope", "signatures"), signatures)).encode()
    assert codes(refusal(data)) == {"P621"}


def test_hint_and_keyid_are_one_key() -> None:
    other = base64.b64encode(bytes(32)).decode()
    data = put(document(), ("verificationMaterial", "publicKey", "hint"), other)
    assert codes(refusal(json.dumps(data).encode())) == {"P622"}


def test_a_trusted_key_is_named() -> None:
    key = TrustedKey("alice", PUBLIC, keys.keyid(PUBLIC))
    assert verify(RECEIPT, trust=Trust((key,))).key == "alice"
