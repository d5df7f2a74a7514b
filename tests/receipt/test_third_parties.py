"""Receipts, judged by three implementations that are not ours."""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey  # type: ignore[attr-defined]

from power.receipt import bundle, dsse, keys
from tests.receipt import samples
from tests.receipt.documents import payload_of

KINDS = ["ed25519", "p256"]
NPM = Path(__file__).parent / "npm"
INSTALL = "npm ci --prefix tests/receipt/npm --ignore-scripts"
STATEMENT = samples.sample_statement()


def flipped(data: bytes) -> bytes:
    """`data` with one bit of its last byte changed."""
    return data[:-1] + bytes([data[-1] ^ 1])


class Party:
    """Files of one receipt in a folder, for a program to verify."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.private = samples.KEYS[kind]
        self.receipt = bundle.sign(STATEMENT, self.private)
        self.envelope = bundle.decode(self.receipt)
        self.folder = folder
        self.key = self.write("key.pub", keys.public_pem(self.private.public_key()))

    def write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path


@pytest.fixture(params=KINDS)
def party(tmp_path: Path, request: pytest.FixtureRequest) -> Party:
    return Party(tmp_path, request.param)


# --- OpenSSL, over the pre-authentication encoding ------------------------------------------


def openssl_verifies(party: Party, message: bytes, signature: bytes) -> bool:
    data, sig = party.write("pae", message), party.write("sig", signature)
    how: list[str | Path] = ["dgst", "-sha256", "-verify", party.key, "-signature", sig, data]
    if party.kind == "ed25519":
        how = ["pkeyutl", "-verify", "-pubin", "-inkey", party.key, "-rawin", "-in", data]
        how += ["-sigfile", sig]
    run = subprocess.run(["openssl", *how], capture_output=True, text=True, check=False)
    assert (run.returncode == 0) == ("success" in run.stdout.lower() or "OK" in run.stdout)
    return run.returncode == 0


def test_openssl_verifies_the_signed_bytes(party: Party) -> None:
    payload = payload_of(party.receipt)
    kind = "application/vnd.in-toto+json"
    message = b"DSSEv1 28 %b %d %b" % (kind.encode(), len(payload), payload)
    assert openssl_verifies(party, message, party.envelope.signature)
    assert not openssl_verifies(party, flipped(message), party.envelope.signature)
    assert not openssl_verifies(party, payload, party.envelope.signature)
    assert not openssl_verifies(party, message, flipped(party.envelope.signature))


# --- sigstore's verifier for JavaScript, on the file ----------------------------------------


@pytest.fixture
def sigstore() -> Path:
    """The verifying script. Without it a test is skipped, and says so; in CI it fails."""
    installed = (NPM / "node_modules" / "@sigstore" / "verify").is_dir()
    if shutil.which("node") is None or not installed:
        missing = f"@sigstore/verify did NOT judge the receipts: run `{INSTALL}`"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return NPM / "verify.mjs"


def sigstore_says(script: Path, party: Party, receipt: bytes) -> dict[str, Any]:
    path = party.write("run.sigstore.json", receipt)
    run = subprocess.run(
        ["node", script, path, party.key], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_sigstore_verifies_the_bundle(sigstore: Path, party: Party) -> None:
    found = sigstore_says(sigstore, party, party.receipt)
    assert found == {"verified": True, "hint": keys.keyid(party.private.public_key())}


@pytest.mark.parametrize("part", ["payload", "payload_type", "signature", "keyid"])
def test_sigstore_refuses_a_changed_bundle(sigstore: Path, party: Party, part: str) -> None:
    value = getattr(party.envelope, part)
    other: Any = flipped(value) if isinstance(value, bytes) else value[:-1] + "n" + value[-1:]
    changes: dict[str, Any] = {part: other}
    receipt = bundle.encode(replace(party.envelope, **changes))
    assert sigstore_says(sigstore, party, receipt)["verified"] is False


# --- securesystemslib, the library of TUF and in-toto, on the envelope ----------------------


def sslib(party: Party) -> tuple[Envelope, SSlibKey]:
    envelope = Envelope.from_dict(json.loads(party.receipt)["dsseEnvelope"])
    key = SSlibKey.from_crypto(party.private.public_key(), keyid=party.envelope.keyid)
    return envelope, key


def test_securesystemslib_verifies_the_envelope(party: Party) -> None:
    envelope, key = sslib(party)
    assert envelope.pae() == dsse.pae(party.envelope.payload_type, party.envelope.payload)
    assert list(envelope.verify([key], 1)) == [party.envelope.keyid]


def test_securesystemslib_refuses_a_changed_envelope(party: Party) -> None:
    envelope, key = sslib(party)
    envelope.payload = flipped(envelope.payload)
    with pytest.raises(VerificationError):
        envelope.verify([key], 1)


def test_an_envelope_of_securesystemslib_is_ours(party: Party) -> None:
    """What another signer puts into an envelope verifies here as well."""
    signer = CryptoSigner(
        party.private,
        SSlibKey.from_crypto(party.private.public_key(), keyid=party.envelope.keyid),
    )
    theirs = Envelope(party.envelope.payload, dsse.PAYLOAD_TYPE, {})
    signature = theirs.sign(signer)
    ours = replace(party.envelope, signature=bytes.fromhex(signature.signature))
    assert ours.signed_by(party.private.public_key())
