"""Signing keys, Ed25519 or ECDSA P-256: PKCS#8 PEM, and SPKI PEM for the public half."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from power.diagnostics import fail
from power.manifest.files import UnreadableError, read_regular
from power.plan.files import check_new, write_atomic
from power.receipt.passphrase import PassphraseSource
from power.receipt.private_files import SECRET_BYTES, make_folder, read_private

Kind = Literal["ed25519", "p256"]
PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey
PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey

_PLAIN = b"-----BEGIN PRIVATE KEY-----"
_ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_KINDS = "an Ed25519 or ECDSA P-256 key"


KEY_VARIABLE = "POWER_KEY"


def default_key_path() -> Path:
    """The private key of a user who names none: `POWER_KEY`, else below the user's data folder."""
    named = os.environ.get(KEY_VARIABLE)
    return Path(named) if named else platformdirs.user_data_path("power") / "signing-key.pem"


def public_path(private: Path) -> Path:
    """Where the public half of the key at `private` lies: beside it, with `.pub` appended."""
    return private.with_name(private.name + ".pub")


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """A key pair as it was written."""

    private: Path
    public: Path
    keyid: str


def create(
    path: Path, kind: Kind = "ed25519", passphrase: PassphraseSource | None = None
) -> KeyFiles:
    """Make a key pair: `path` (mode 0600) and, beside it, `path`.pub; nothing is overwritten.

    The private half is PKCS#8 PEM, encrypted when there is a passphrase (the
    strongest scheme of the library: PBES2 with AES-256). Raises P440 when one of the
    two files exists, P441 when they cannot be written, and what asking for the
    passphrase raises. Whatever happens, a private half is never there without its
    public one.
    """
    private: PrivateKey
    if kind == "ed25519":
        private = ed25519.Ed25519PrivateKey.generate()
    else:
        private = ec.generate_private_key(ec.SECP256R1())
    beside = public_path(path)
    make_folder(path.parent, 0o700)
    check_new(path)
    secret = None if passphrase is None else passphrase()
    # The public half first: what a crash between the two leaves behind is no secret.
    write_atomic(beside, public_pem(private.public_key()), overwrite=False)
    try:
        write_atomic(path, _private_pem(private, secret), overwrite=False, mode=0o600)
    except BaseException:
        if not os.path.lexists(path):
            beside.unlink(missing_ok=True)
        raise
    return KeyFiles(path, beside, keyid(private.public_key()))


def _private_pem(private: PrivateKey, passphrase: bytes | None) -> bytes:
    scheme: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        scheme = BestAvailableEncryption(passphrase)
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, scheme)


def public_pem(public: PublicKey) -> bytes:
    """SubjectPublicKeyInfo as PEM."""
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def keyid(public: PublicKey) -> str:
    """Base64 (44 characters) of the SHA-256 of the DER SubjectPublicKeyInfo."""
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(der).digest()).decode("ascii")


def kind_of(key: PrivateKey | PublicKey) -> Kind:
    """Which of the two kinds a key is."""
    ed = (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey)
    return "ed25519" if isinstance(key, ed) else "p256"


def load_private(path: Path, passphrase: PassphraseSource | None = None) -> PrivateKey:
    """The private key of a PKCS#8 PEM file that its owner alone can read.

    Raises P602 (others can read it, another owner, a symlink), P603 (not such a
    key), P604 (a passphrase is wanted or wrong), P605 (unreadable).
    """
    pem = read_private(path, "private key", lambda data: b"PRIVATE KEY-----" in data)
    if b"-----BEGIN PUBLIC KEY-----" in pem:
        fail(
            "P603",
            f"`{path}` holds a public key, which cannot sign",
            expected="the private key",
            hint="give the file that lies beside it, without `.pub`",
        )
    encrypted = _ENCRYPTED in pem
    if not encrypted and _PLAIN not in pem:
        fail(
            "P603",
            f"`{path}` is not a PKCS#8 private key",
            expected="PEM that begins with `-----BEGIN PRIVATE KEY-----`",
            hint="make one with `power key new`, or convert: `openssl pkcs8 -topk8 -in KEY`",
        )
    if encrypted and passphrase is None:
        fail(
            "P604",
            f"the private key `{path}` is encrypted",
            hint="give its passphrase by file, environment variable or prompt",
        )
    secret = passphrase() if encrypted and passphrase is not None else None
    try:
        key = load_pem_private_key(pem, secret)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if encrypted:
            fail(
                "P604",
                f"the passphrase does not open `{path}`",
                hint="check the passphrase; if it is right, the file is damaged",
            )
        fail(
            "P603",
            f"`{path}` does not hold a usable key: {error}",
            expected=_KINDS,
            hint="make one with `power key new`",
        )
    if not _supported(key):
        fail(
            "P603",
            f"`{path}` holds a kind of key that Power does not sign with",
            expected=_KINDS,
            hint="make one with `power key new`",
        )
    return key  # type: ignore[return-value]  # _supported narrowed it


def _supported(key: object) -> bool:
    if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        return isinstance(key.curve, ec.SECP256R1)
    return isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey)


def load_public(path: Path) -> PublicKey:
    """The public key of an SPKI PEM file: P605 when unreadable, P603 when it is not one."""
    try:
        pem = read_regular(path, SECRET_BYTES)
    except UnreadableError as error:
        fail(
            "P605",
            f"the public key cannot be read: {error}",
            place=str(path),
            hint="name the `.pub` file that `power key new` made",
        )
    return parse_public(pem, f"`{path}`")


def parse_public(pem: bytes, name: str) -> PublicKey:
    """The public key in `pem`; `name` says in messages where the text came from."""
    if b"PRIVATE KEY-----" in pem:
        fail(
            "P603",
            f"{name} holds a private key where a public one is wanted",
            hint="give the `.pub` file that lies beside it, and keep the private key to yourself",
        )
    try:
        key = load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        fail(
            "P603",
            f"{name} is not a public key",
            expected="PEM that begins with `-----BEGIN PUBLIC KEY-----`",
            hint="`power key show KEY` prints the public half of a key",
        )
    if not _supported(key):
        fail(
            "P603",
            f"{name} is a kind of key that Power does not verify with",
            expected=_KINDS,
            hint="ask the signer for the key that signed",
        )
    return key  # type: ignore[return-value]  # _supported narrowed it


def sign(private: PrivateKey, message: bytes) -> bytes:
    """Ed25519: 64 bytes. P-256: ECDSA over SHA-256, DER."""
    if isinstance(private, ed25519.Ed25519PrivateKey):
        return private.sign(message)
    return private.sign(message, ec.ECDSA(hashes.SHA256()))


def signature_holds(public: PublicKey, signature: bytes, message: bytes) -> bool:
    """Whether `signature` over `message` was made with the private half of `public`."""
    try:
        if isinstance(public, ed25519.Ed25519PublicKey):
            public.verify(signature, message)
        else:
            public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
