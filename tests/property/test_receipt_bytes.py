"""What holds for the bytes of every receipt: encoding, canonical form, strict reading."""

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from power.receipt import bundle, digests, dsse, strict_json
from power.receipt.strict_json import INTEGER_LIMIT, JSONRefusedError
from tests.receipt import samples

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-INTEGER_LIMIT, INTEGER_LIMIT) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
KEY = samples.KEYS["ed25519"]


def read_pae(data: bytes) -> tuple[str, bytes]:
    """Undo the encoding by its own words, so that no two inputs can share one."""
    prefix, length, rest = data.split(b" ", 2)
    assert prefix == b"DSSEv1"
    kind, rest = rest[: int(length)], rest[int(length) :]
    assert rest[:1] == b" "
    size, payload = rest[1:].split(b" ", 1)
    assert len(payload) == int(size)
    return kind.decode(), payload


@given(TEXT, st.binary())
def test_pae_is_injective(kind: str, payload: bytes) -> None:
    assert read_pae(dsse.pae(kind, payload)) == (kind, payload)


@given(TEXT, st.binary(), TEXT, st.binary())
def test_a_signature_is_for_one_type_and_payload(a: str, x: bytes, b: str, y: bytes) -> None:
    envelope = dsse.seal(x, KEY, a)
    other = dsse.Envelope(b, y, envelope.signature, envelope.keyid)
    assert other.signed_by(KEY.public_key()) == ((a, x) == (b, y))


@given(st.binary(min_size=1))
def test_a_bundle_keeps_its_envelope(payload: bytes) -> None:
    envelope = dsse.seal(payload, KEY)
    assert bundle.decode(bundle.encode(envelope)) == envelope


@given(DOCUMENTS)
def test_canonical_form_is_read_strictly_and_is_stable(document: Any) -> None:
    data = rfc8785.dumps(document)
    assert strict_json.loads(data) == document
    assert rfc8785.dumps(strict_json.loads(data)) == data


@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_canonical_form_ignores_the_order_of_keys(document: Any, random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, list):
            return [shuffled(item) for item in value]
        if not isinstance(value, dict):
            return value
        keys = list(value)
        random.shuffle(keys)
        return {key: shuffled(value[key]) for key in keys}

    assert rfc8785.dumps(shuffled(document)) == rfc8785.dumps(document)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = strict_json.loads(data)
    except JSONRefusedError:
        return
    assert found == json.loads(data)


@given(st.text(alphabet='[]{}":,\\u0dD8e1.-+ntf', max_size=60))
@settings(max_examples=500)
def test_near_json_is_read_or_refused(text: str) -> None:
    try:
        found = strict_json.loads(text.encode())
    except JSONRefusedError:
        return
    assert found == json.loads(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_decimal_reads_back(value: float) -> None:
    text = digests.decimal(value)
    assert float(text) == value
    assert "e" not in text.lower()
    assert digests.decimal(float(text)) == text


@given(st.lists(st.integers(0, 2**32 - 1)), st.lists(st.integers(0, 2**32 - 1)))
def test_token_digests_tell_sequences_apart(a: list[int], b: list[int]) -> None:
    assert (digests.token_ids_sha256(a) == digests.token_ids_sha256(b)) == (a == b)


@pytest.mark.parametrize("value", [1.0, 0.5, float("inf"), float("nan")])
def test_no_float_is_read(value: float) -> None:
    with pytest.raises(JSONRefusedError):
        strict_json.loads(json.dumps({"x": value}).encode())


@pytest.mark.parametrize("value", [INTEGER_LIMIT + 1, -INTEGER_LIMIT - 1])
def test_no_integer_beyond_what_every_reader_holds(value: int) -> None:
    with pytest.raises(JSONRefusedError):
        strict_json.loads(str(value).encode())
