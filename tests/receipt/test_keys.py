"""Keys: made for their owner alone, refused when anyone else could have read them."""

import base64
import hashlib
import os
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from power.diagnostics import ExitCode, PowerError
from power.receipt import keys, passphrase
from power.receipt.keys import Kind
from tests.receipt import samples

SECRET = b"correct horse"


def code(error: pytest.ExceptionInfo[PowerError]) -> str:
    (found,) = error.value.diagnostics
    return found.code


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def source(secret: bytes = SECRET) -> passphrase.PassphraseSource:
    return lambda: secret


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return keys.create(tmp_path / "signing.pem").private


# --- making ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_a_new_pair(tmp_path: Path, kind: Kind, umask: int) -> None:
    before = os.umask(umask)
    try:
        made = keys.create(tmp_path / "signing.pem", kind)
    finally:
        os.umask(before)
    private, public = keys.load_private(made.private), keys.load_public(made.public)
    assert (mode(made.private), mode(made.public)) == (0o600, 0o644)
    assert keys.kind_of(private) == keys.kind_of(public) == kind
    assert made.keyid == keys.keyid(public) == keys.keyid(private.public_key())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["signing.pem", "signing.pem.pub"]
    assert keys.signature_holds(public, keys.sign(private, b"message"), b"message")
    assert not keys.signature_holds(public, keys.sign(private, b"message"), b"massage")


def test_the_keyid_is_the_digest_of_the_der_key() -> None:
    public = samples.KEYS["p256"].public_key()
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert keys.keyid(public) == base64.b64encode(hashlib.sha256(der).digest()).decode()


def test_a_folder_for_the_key_is_made_private(tmp_path: Path) -> None:
    made = keys.create(tmp_path / "keys" / "signing.pem")
    assert mode(made.private.parent) & 0o077 == 0


@pytest.mark.parametrize("taken", ["signing.pem", "signing.pem.pub"])
@pytest.mark.parametrize("how", ["file", "symlink", "dangling"])
def test_nothing_is_overwritten(tmp_path: Path, taken: str, how: str) -> None:
    other = tmp_path / "other"
    if how != "dangling":
        other.write_bytes(b"precious")
    if how == "file":
        other.rename(tmp_path / taken)
    else:
        (tmp_path / taken).symlink_to(other)
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(PowerError) as refused:
        keys.create(tmp_path / "signing.pem")
    assert code(refused) == "P440"
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    if how != "dangling":
        assert (tmp_path / taken).read_bytes() == b"precious"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PowerError) as refused:
        keys.create(tmp_path / "file" / "signing.pem")
    assert code(refused) == "P441"


# --- permissions, by the file's mode: they hold for root too -------------------------------


@pytest.mark.parametrize(
    "bits", [0o640, 0o604, 0o660, 0o644, 0o666, 0o610, 0o601, 0o602, 0o620, 0o755]
)
def test_a_key_that_others_can_reach_is_refused(key: Path, bits: int) -> None:
    key.chmod(bits)
    with pytest.raises(PowerError) as refused:
        keys.load_private(key)
    assert code(refused) == "P602"
    assert refused.value.exit_code is ExitCode.BROKEN_TRUST
    assert refused.value.diagnostics[0].found == f"mode {bits:04o}"


@pytest.mark.parametrize("bits", [0o600, 0o400, 0o700])
def test_a_key_of_its_owner_alone_is_read(key: Path, bits: int) -> None:
    key.chmod(bits)
    assert keys.kind_of(keys.load_private(key)) == "ed25519"


def test_a_key_of_another_user_is_refused(key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing the owner needs root, changing who asks does not."""
    monkeypatch.setattr(os, "geteuid", lambda: key.stat().st_uid + 1)
    with pytest.raises(PowerError) as refused:
        keys.load_private(key)
    assert code(refused) == "P602"
    assert "another user" in refused.value.diagnostics[0].message


def test_a_symlink_to_a_key_is_refused(key: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.pem"
    link.symlink_to(key)
    with pytest.raises(PowerError) as refused:
        keys.load_private(link)
    assert code(refused) == "P602"


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(PowerError) as refused:
        keys.load_private(tmp_path / "pipe")
    assert code(refused) == "P602"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PowerError) as refused:
        keys.load_private(tmp_path)
    assert code(refused) == "P602"


def test_a_missing_key(tmp_path: Path) -> None:
    with pytest.raises(PowerError) as refused:
        keys.load_private(tmp_path / "none.pem")
    assert code(refused) == "P605"
    with pytest.raises(PowerError) as refused:
        keys.load_public(tmp_path / "none.pub")
    assert code(refused) == "P605"


# --- what is a key --------------------------------------------------------------------------


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def pkcs8(private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100,
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        pkcs8(ec.derive_private_key(7, ec.SECP384R1())),
        pkcs8(ec.derive_private_key(7, ec.SECP256K1())),
        keys.public_pem(samples.KEYS["ed25519"].public_key()),
        samples.p256_key().private_bytes(
            Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
        ),
    ],
    ids=["empty", "zeros", "damaged", "p384", "secp256k1", "public", "sec1"],
)
def test_other_files_are_no_private_key(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(PowerError) as refused:
        keys.load_private(write(tmp_path / "key.pem", data))
    assert code(refused) == "P603"
    assert refused.value.exit_code is ExitCode.CANNOT_JUDGE


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_public_key_is_not_told_to_hide(tmp_path: Path, mode: int) -> None:
    public = write(tmp_path / "key.pem.pub", keys.public_pem(samples.KEYS["ed25519"].public_key()))
    public.chmod(mode)
    with pytest.raises(PowerError) as refused:
        keys.load_private(public)
    assert code(refused) == "P603"
    assert "cannot sign" in refused.value.diagnostics[0].message


def test_what_holds_no_key_is_not_told_to_hide(tmp_path: Path) -> None:
    notes = write(tmp_path / "notes.txt", b"no secret")
    notes.chmod(0o644)
    with pytest.raises(PowerError) as refused:
        keys.load_private(notes)
    assert code(refused) == "P603"


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(PowerError) as refused:
        keys.load_private(write(tmp_path / "key.pem", b"x" * (65 * 1024)))
    assert code(refused) == "P605"


@pytest.mark.parametrize("name", ["private", "nonsense", "p384"])
def test_other_files_are_no_public_key(tmp_path: Path, key: Path, name: str) -> None:
    data = {
        "private": key.read_bytes(),
        "nonsense": b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        "p384": ec.derive_private_key(7, ec.SECP384R1())
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    }[name]
    with pytest.raises(PowerError) as refused:
        keys.load_public(write(tmp_path / "key.pub", data))
    assert code(refused) == "P603"


def test_keys_of_openssl_are_read(tmp_path: Path) -> None:
    for number, arguments in enumerate(
        (["ed25519"], ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"])
    ):
        path = tmp_path / f"{number}.pem"
        subprocess.run(
            ["openssl", "genpkey", "-algorithm", *arguments, "-out", path],
            check=True,
            capture_output=True,
        )
        path.chmod(0o600)
        assert keys.kind_of(keys.load_private(path)) == ("ed25519", "p256")[number]


# --- passphrases ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_an_encrypted_key_opens_with_its_passphrase_only(tmp_path: Path, kind: Kind) -> None:
    made = keys.create(tmp_path / "key.pem", kind, source())
    assert made.private.read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert keys.keyid(keys.load_private(made.private, source()).public_key()) == made.keyid
    for wrong in (None, source(b"wrong")):
        with pytest.raises(PowerError) as refused:
            keys.load_private(made.private, wrong)
        assert code(refused) == "P604"
        assert SECRET.decode() not in str(refused.value)


def test_a_passphrase_is_asked_for_only_when_it_is_needed(key: Path) -> None:
    def never() -> bytes:
        raise AssertionError("asked")

    assert keys.kind_of(keys.load_private(key, never)) == "ed25519"


@pytest.mark.parametrize("text", [b"correct horse", b"correct horse\n", b"correct horse\r\nmore\n"])
def test_a_passphrase_file(tmp_path: Path, text: bytes) -> None:
    path = write(tmp_path / "pass", text)
    assert passphrase.from_file(path)() == SECRET
    path.chmod(0o644)
    with pytest.raises(PowerError) as refused:
        passphrase.from_file(path)()
    assert code(refused) == "P602"


def test_an_empty_passphrase_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(passphrase.PASSPHRASE_VARIABLE, "")
    file = write(tmp_path / "p", b"\n")
    for empty in (passphrase.from_file(file), passphrase.from_environment()):
        with pytest.raises(PowerError) as refused:
            empty()
        assert code(refused) == "P604"


def test_where_a_passphrase_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(passphrase.PASSPHRASE_VARIABLE, raising=False)
    assert passphrase.given(None) is None
    monkeypatch.setenv(passphrase.PASSPHRASE_VARIABLE, "from the environment")
    found = passphrase.given(None)
    assert found is not None
    assert found() == b"from the environment"
    found = passphrase.given(write(tmp_path / "p", b"from the file\n"))
    assert found is not None
    assert found() == b"from the file"


def test_a_prompt_asks_twice_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["one", "one", "one", "two", "one"]
    monkeypatch.setattr("getpass.getpass", lambda _: answers.pop(0))
    monkeypatch.setattr(passphrase, "_has_terminal", lambda: True)
    assert passphrase.from_prompt("key", confirm=True)() == b"one"
    with pytest.raises(PowerError) as refused:
        passphrase.from_prompt("key", confirm=True)()
    assert code(refused) == "P604"
    assert passphrase.from_prompt("key")() == b"one"


def test_the_default_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(keys.KEY_VARIABLE, str(tmp_path / "mine.pem"))
    assert keys.default_key_path() == tmp_path / "mine.pem"
    assert keys.public_path(keys.default_key_path()) == tmp_path / "mine.pem.pub"
    monkeypatch.delenv(keys.KEY_VARIABLE)
    assert keys.default_key_path().name == "signing-key.pem"


def test_the_private_half_is_pkcs8(key: Path) -> None:
    assert key.read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----")
    assert load_pem_private_key(key.read_bytes(), None)
