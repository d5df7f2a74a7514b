"""Receipts made to mislead whoever checks them, also by a signer whose key is trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from click.testing import CliRunner

from power.cli.verbs.verify import command
from power.diagnostics import PowerError, as_text
from power.receipt import bundle, dsse, keys, strict_json
from power.receipt.trust import trust_in
from power.receipt.verify import verify_receipt
from tests.receipt import samples
from tests.receipt.documents import put

KEY = samples.KEYS["ed25519"]
TRUST = trust_in(KEY.public_key())
STATEMENT = samples.sample_statement()
RECEIPT = bundle.sign(STATEMENT, KEY)
ESCAPES = ("\x1b[2J", "\x9b31m", "\u202etxt", "\u200b", "a\nb", "\x00", "\u2028")


def refusal(data: bytes) -> PowerError:
    with pytest.raises(PowerError) as caught:
        verify_receipt(data, TRUST)
    return caught.value


def codes(error: PowerError) -> set[str]:
    return {found.code for found in error.diagnostics}


def texts(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every text in a document."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, (*path, index))


def test_no_prefix_of_a_receipt_is_one() -> None:
    for end in range(0, len(RECEIPT) - 1, 7):
        assert codes(refusal(RECEIPT[:end])) == {"P620"}


@pytest.mark.parametrize("where", ["before", "behind", "inside"])
def test_ten_megabytes_are_refused(where: str) -> None:
    padding = b" " * (10 << 20)
    data = {
        "before": padding + RECEIPT,
        "behind": RECEIPT + padding,
        "inside": RECEIPT.replace(b'"hint":', padding + b'"hint":', 1),
    }[where]
    assert codes(refusal(data)) == {"P620"}


@pytest.mark.parametrize("keyid", ["", " ", "A" * 43 + "=", "../key", "\x1b[2J"])
def test_a_keyid_that_names_no_key(keyid: str) -> None:
    document = json.loads(RECEIPT)
    document["dsseEnvelope"]["signatures"][0]["keyid"] = keyid
    document["verificationMaterial"]["publicKey"]["hint"] = keyid
    error = refusal(json.dumps(document).encode())
    assert codes(error) <= {"P613", "P620", "P621", "P622"}
    assert all(line.isprintable() for line in as_text(error.diagnostics).splitlines())


@pytest.mark.parametrize("kind", ["", "application/json", "application/vnd.in-toto+json ", "text"])
def test_a_payload_signed_as_something_else_is_no_receipt(kind: str) -> None:
    """A trusted signature over another kind of document says nothing about a run."""
    sealed = dsse.seal(rfc8785.dumps(STATEMENT), KEY, kind)
    assert codes(refusal(bundle.encode(sealed))) <= {"P620", "P625"}


@pytest.mark.parametrize("text", ESCAPES, ids=ascii)
def test_nothing_that_a_signer_writes_acts_on_a_terminal(text: str, tmp_path: Path) -> None:
    """Each text of the statement in turn: refused or shown escaped, by every format."""
    (tmp_path / "key.pub").write_bytes(keys.public_pem(KEY.public_key()))
    path = tmp_path / "r.json"
    for where in texts(STATEMENT):
        path.write_bytes(bundle.sign(put(STATEMENT, where, text), KEY))
        for fmt in ("human", "json"):
            arguments = [str(path), "--key", str(tmp_path / "key.pub"), "--format", fmt]
            done = CliRunner().invoke(command, arguments)
            assert not isinstance(done.exception, ValueError | TypeError | KeyError), where
            assert all(line.isprintable() for line in done.output.split("\n")), (where, done.output)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"1E400", "a number beyond any"),
        (b"-0", "minus zero"),
        (b"1.0", "a float"),
        (b"1e2", "an exponent"),
        (b"01", "a leading zero"),
        (b"+1", "a plus"),
        (b"9007199254740993", "beyond 2^53"),
        (b"NaN", "no number"),
        (b"-Infinity", "no number"),
        (b'"\\ud800"', "half a pair"),
        (b'"\\udc00\\ud800"', "a pair the wrong way round"),
        (b'"\xed\xa0\x80"', "a surrogate in UTF-8"),
        (b'{"a":1,"\\u0061":2}', "a key twice, once escaped"),
        (b"\xef\xbb\xbf1", "a byte-order mark"),
        (b"1 2", "two documents"),
        (b"[1,]", "a comma too many"),
        (b"", "nothing"),
        (b"[" * 100_000, "depth"),
    ],
)
def test_json_that_two_readers_could_read_two_ways(data: bytes, why: str) -> None:
    with pytest.raises(strict_json.JSONRefusedError):
        strict_json.loads(data)


def test_keys_are_sorted_as_rfc_8785_says() -> None:
    """By UTF-16 code units, so that U+1F600 comes before U+FB33. The RFC's own example."""
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    data = rfc8785.dumps(dict.fromkeys(names, 0))
    assert list(json.loads(data)) == [
        "\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33",
    ]  # fmt: skip


def test_a_receipt_shown_twice_is_one_receipt() -> None:
    """Verifying cannot tell a replayed receipt from a fresh one; its identity can."""
    first, second = (verify_receipt(RECEIPT, TRUST) for _ in range(2))
    assert first.receipt_id == second.receipt_id
