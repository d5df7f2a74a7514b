"""Verification: what holds, what each kind of change breaks, and who decides about trust."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from power.diagnostics import ExitCode, PowerError
from power.receipt import bundle, dsse, keys
from power.receipt.keys import PrivateKey
from power.receipt.statement import build_statement
from power.receipt.trust import Revocation, Trust, TrustedKey, trust_in
from power.receipt.verify import Verified, verify_artifacts, verify_receipt
from tests.receipt import samples
from tests.receipt.documents import changed, payload_of, places, put, tampered, without

STATEMENT = samples.sample_statement()
KEY = samples.KEYS["ed25519"]
PUBLIC = KEY.public_key()
RECEIPT = bundle.sign(STATEMENT, KEY)
PLAN = samples.plan_bytes(samples.sample_plan())


def verify(data: bytes, **more: Any) -> Verified:
    if "trust" not in more:
        more.setdefault("key", PUBLIC)
    return verify_receipt(data, **more)


def refusal(data: bytes, **more: Any) -> PowerError:
    with pytest.raises(PowerError) as refused:
        verify(data, **more)
    return refused.value


def codes(error: PowerError) -> set[str]:
    return {d.code for d in error.diagnostics}


def resigned(statement: Any) -> bytes:
    """The bundle that an honest key would make of a dishonest statement."""
    return bundle.sign(statement, KEY)


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_a_receipt_holds(kind: str) -> None:
    private = samples.KEYS[kind]
    verified = verify(
        bundle.sign(STATEMENT, private),
        key=private.public_key(),
        plan=PLAN,
        output=samples.OUTPUT,
    )
    assert verified.statement.document() == STATEMENT
    assert verified.keyid == keys.keyid(private.public_key())
    assert verified.checked == ("signature", "consistency", "plan", "output")
    assert verified.warnings == ()


def test_the_signed_bytes_are_kept() -> None:
    assert verify(RECEIPT).payload == payload_of(RECEIPT) == rfc8785.dumps(STATEMENT)


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
    error = refusal(RECEIPT, key=key.public_key())
    assert codes(error) == {"P613"}
    assert error.exit_code is ExitCode.BROKEN_TRUST
    assert error.diagnostics[0].found == keys.keyid(PUBLIC)


def test_no_key_is_no_trust() -> None:
    error = refusal(RECEIPT, key=None)
    assert codes(error) == {"P612"}
    assert error.exit_code is ExitCode.CANNOT_JUDGE


def test_an_ed25519_signature_with_a_p256_keyid_fails() -> None:
    private = samples.KEYS["p256"]
    mixed = replace(bundle.decode(RECEIPT), keyid=keys.keyid(private.public_key()))
    assert codes(refusal(bundle.encode(mixed), key=private.public_key())) == {"P624"}


def test_ecdsa_twins_are_one_receipt() -> None:
    """(r, s) and (r, n - s) are both valid; the identity comes from the payload."""
    private = samples.KEYS["p256"]
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    envelope = dsse.seal(payload_of(RECEIPT), private)
    r, s = decode_dss_signature(envelope.signature)
    twin = replace(envelope, signature=encode_dss_signature(r, order - s))
    one, two = (verify(bundle.encode(e), key=private.public_key()) for e in (envelope, twin))
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


# --- the statement, by an honest key -----------------------------------------------------


@pytest.mark.parametrize(
    ("payload_type", "payload"),
    [
        ("application/json", rfc8785.dumps(STATEMENT)),
        (dsse.PAYLOAD_TYPE, b""),
        (dsse.PAYLOAD_TYPE, b"[]"),
        (dsse.PAYLOAD_TYPE, b"null"),
        (dsse.PAYLOAD_TYPE, b'"text"'),
        (dsse.PAYLOAD_TYPE, b"not json"),
        (dsse.PAYLOAD_TYPE, rfc8785.dumps(STATEMENT | {"predicateType": "urn:other"})),
        (dsse.PAYLOAD_TYPE, rfc8785.dumps(STATEMENT | {"_type": "urn:other"})),
        (dsse.PAYLOAD_TYPE, rfc8785.dumps(STATEMENT)[:-1] + b',"predicateType":"x"}'),
        (dsse.PAYLOAD_TYPE, rfc8785.dumps(STATEMENT).replace(b'"seed":7', b'"seed":7.0')),
        (dsse.PAYLOAD_TYPE, rfc8785.dumps(STATEMENT).replace(b'"seed":7', b'"seed":true')),
        (dsse.PAYLOAD_TYPE, rfc8785.dumps(STATEMENT).replace(b'"seed":7', b'"seed":"7"')),
        (dsse.PAYLOAD_TYPE, rfc8785.dumps(STATEMENT).replace(b'"seed":7', b'"seed":-7')),
        (dsse.PAYLOAD_TYPE, rfc8785.dumps(STATEMENT) + b"{}"),
    ],
)
def test_a_signed_payload_of_another_kind_cannot_be_judged(
    payload_type: str, payload: bytes
) -> None:
    if not payload:  # the bundle itself requires a payload
        payload = b" "
    error = refusal(bundle.encode(dsse.seal(payload, KEY, payload_type)))
    assert codes(error) == {"P625"}
    assert error.exit_code is ExitCode.CANNOT_JUDGE


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (path, changed(value))
        for path, value in places(STATEMENT)
        if isinstance(value, int | list | dict) and not isinstance(value, bool)
    ],
    ids=lambda p: ".".join(str(k) for k in p) if isinstance(p, tuple) else "",
)
def test_a_signed_lie_is_refused_where_it_can_be_seen(path: Any, value: Any) -> None:
    """Whatever an honest key signs, the plan, the output and arithmetic still judge it.

    What nothing at hand can contradict is listed here, and nothing else.
    """
    free = {
        ("predicate", "request", "prompt_tokens"),
        ("predicate", "host", "physical_cores"),
        ("predicate", "host", "threads"),
        ("predicate", "host", "memory_bytes"),
        ("predicate", "execution", "peak_rss_bytes"),
        ("predicate", "execution", "replays"),
        ("predicate", "execution", "guard_round"),
        ("predicate", "execution", "clamped_width"),
        ("predicate", "execution", "widened_round"),
        ("predicate", "timing", "first_token_us"),
        ("predicate", "host", "devices"),
        ("predicate", "execution", "notes"),
        ("predicate", "execution", "width_by_round", 0, "width"),
        ("predicate", "execution", "width_by_round", 2, "width"),
    }
    data = resigned(put(STATEMENT, path, value))
    if path in free:
        assert verify(data, plan=PLAN, output=samples.OUTPUT).checked[-1] == "output"
    else:
        error = refusal(data, plan=PLAN, output=samples.OUTPUT)
        assert codes(error) <= {"P625", "P626", "P630", "P633"}


def test_all_contradictions_are_told_at_once() -> None:
    statement = put(STATEMENT, ("predicate", "execution", "accepted"), 17)
    statement = put(statement, ("predicate", "timing", "wall_us"), 1)
    statement = put(statement, ("predicate", "claim_sha256"), "0" * 64)
    error = refusal(resigned(statement))
    assert [d.place for d in error.diagnostics] == [
        "predicate.execution.accepted",
        "predicate.execution.accepted_by_position",
        "predicate.execution.output_tokens",
        "predicate.timing.phases_us",
        "predicate.timing.first_token_us",
        "predicate.claim_sha256",
    ]
    assert {d.code for d in error.diagnostics} == {"P626"}


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("subject", 0, "name"), "plan.lock", "subject"),
        (("predicate", "plan", "digest", "sha256"), "0" * 64, "predicate.plan.digest.sha256"),
        (("predicate", "request", "sampling", "temperature"), "0.8",
         "predicate.request.sampling_sha256"),
        (("predicate", "artifacts", 0, "digest", "sha256"), "0" * 64, "predicate.claim_sha256"),
        (("predicate", "execution", "strategy"), "off", "predicate.execution.strategy"),
        (("predicate", "bounds", "min_acceptance", "met"), False,
         "predicate.bounds.min_acceptance.met"),
        (("predicate", "timing", "finished"), "2026-08-23T10:11:11Z", "predicate.timing.finished"),
        (("predicate", "timing", "started"), "2026-13-23T10:11:11Z", "predicate.timing.started"),
        (("predicate", "execution", "accepted_by_position"), [4, 1, 3, 1],
         "predicate.execution.accepted_by_position[2]"),
        (("predicate", "execution", "drafted_by_position"), [3, 5, 5, 3],
         "predicate.execution.drafted_by_position[1]"),
        (("predicate", "execution", "finish"), "length", "predicate.execution.output_tokens"),
        (("predicate", "execution", "guard_round"), 7, "predicate.execution.guard_round"),
        (("predicate", "execution", "replays"), 7, "predicate.execution.replays"),
        (("predicate", "request", "max_tokens"), 14, "predicate.execution.output_tokens"),
        (("predicate", "execution", "width_by_round", 0, "width"), 5,
         "predicate.execution.width_by_round"),
        (("predicate", "execution", "drafted_by_position"), [5, 5, 3, 2, 1],
         "predicate.execution.drafted_by_position"),
        (("predicate", "execution", "replays"), 0, "predicate.execution.replays"),
        (("predicate", "request", "control"), True, "predicate.execution.strategy"),
        (("predicate", "artifacts"), [STATEMENT["predicate"]["artifacts"][2]],
         "predicate.artifacts"),
        (("predicate", "timing", "finished"), "2026-02-30T00:00:00Z", "predicate.timing.started"),
        (("predicate", "execution", "width_by_round", 0, "rounds"), 2,
         "predicate.execution.width_by_round"),
    ],
)  # fmt: skip
def test_a_contradiction_is_shown_at_its_place(path: Any, value: Any, place: str) -> None:
    error = refusal(resigned(put(STATEMENT, path, value)))
    assert place in {d.place for d in error.diagnostics}
    assert codes(error) == {"P626"}
    assert all(d.expected and d.found for d in error.diagnostics)


@pytest.mark.parametrize("name", ["guard_round", "clamped_width"])
def test_a_guard_fires_and_clamps(name: str) -> None:
    error = refusal(resigned(without(STATEMENT, ("predicate", "execution", name))))
    assert [d.place for d in error.diagnostics] == ["predicate.execution.guard_round"]


@pytest.mark.parametrize(
    ("name", "value"), [("drafted", 1), ("replays", 1), ("widths", {"draft_max": 4})]
)
def test_a_run_without_a_proposer_speculates_nothing(name: str, value: Any) -> None:
    statement = put(samples.off_statement(), ("predicate", "execution", name), value)
    error = refusal(resigned(statement))
    assert f"predicate.execution.{name}" in {d.place for d in error.diagnostics}


def test_a_time_that_is_none_is_a_contradiction_under_any_window() -> None:
    statement = put(STATEMENT, ("predicate", "timing", "finished"), "2026-02-30T00:00:00Z")
    error = refusal(resigned(statement), trust=trusted(not_after=at("2020-01-01T00:00:00")))
    assert codes(error) == {"P626"}


def test_a_request_for_more_than_the_plan_is_refused() -> None:
    request = replace(samples.REQUEST, max_tokens=65)
    record = replace(samples.RECORD, max_tokens=65)
    plan = samples.sample_plan()
    data = resigned(build_statement(plan, samples.plan_bytes(plan), request, record))
    (found,) = refusal(data, plan=PLAN).diagnostics
    assert (found.code, found.place) == ("P633", "predicate.request.max_tokens")


def test_a_signed_plan_that_is_no_text_is_refused() -> None:
    data = b"\xff\xfe"
    statement = put(STATEMENT, ("subject", 0, "digest", "sha256"), samples.digests_of(data))
    place = ("predicate", "plan", "digest", "sha256")
    error = refusal(resigned(put(statement, place, samples.digests_of(data))), plan=data)
    assert codes(error) == {"P630"}


def test_a_bound_that_was_not_met_is_a_warning() -> None:
    record = samples.RECORD
    bounds = {"min_acceptance": 0.9}
    plan = samples.sample_plan(bounds=bounds)
    statement = build_statement(plan, samples.plan_bytes(plan), samples.REQUEST, record)
    verified = verify(resigned(statement))
    assert [(w.code, w.severity) for w in verified.warnings] == [("P616", "warning")]


# --- against plan and output -------------------------------------------------------------


def test_another_plan_file_is_refused() -> None:
    error = refusal(RECEIPT, plan=PLAN + b"\n")
    assert codes(error) == {"P630"}
    assert error.exit_code is ExitCode.BROKEN_TRUST


def test_another_output_is_refused() -> None:
    error = refusal(RECEIPT, output=samples.OUTPUT + b"\n")
    assert codes(error) == {"P631"}


def test_a_signed_file_that_is_no_plan_is_refused() -> None:
    data = b"version = 1\n"
    plan = samples.digests_of(data)
    statement = put(STATEMENT, ("subject", 0, "digest", "sha256"), plan)
    statement = put(statement, ("predicate", "plan", "digest", "sha256"), plan)
    error = refusal(resigned(statement), plan=data)
    assert {code[:2] for code in codes(error)} == {"P4"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("predicate", "plan", "name"), "other"),
        (("predicate", "plan", "plan_sha256"), "0" * 64),
        (("predicate", "artifacts", 2, "digest", "sha256"), "0" * 64),
        (("predicate", "artifacts", 2, "name"), "other.gguf"),
        (("predicate", "artifacts", 0, "uri"), "https://models.example/other"),
        (("predicate", "engine", "llama_cpp"), "b1"),
        (("predicate", "execution", "graph", "rows"), 6),
        (("predicate", "execution", "widths", "draft_p_min"), "0.5"),
        (("predicate", "exactness", "level"), "serial"),
    ],
)
def test_a_statement_that_differs_from_its_plan_is_refused(path: Any, value: Any) -> None:
    data = resigned(put(STATEMENT, path, value))
    verify(data)  # nothing but the plan can tell
    error = refusal(data, plan=PLAN)
    assert codes(error) == {"P633"}
    shown = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in path)[1:]
    assert [d.place for d in error.diagnostics] == [shown]


def test_leaving_out_the_bound_is_seen_by_the_plan() -> None:
    statement = json.loads(json.dumps(STATEMENT))
    del statement["predicate"]["bounds"]
    error = refusal(resigned(statement), plan=PLAN)
    assert [d.place for d in error.diagnostics] == ["predicate.bounds.min_acceptance.required"]


def test_a_control_receipt_holds_against_its_plan() -> None:
    data = resigned(samples.control_statement())
    assert verify(data, plan=PLAN, output=samples.OUTPUT).checked[-2:] == ("plan", "output")


def test_artifacts_are_hashed(tmp_path: Path) -> None:
    body = samples.plan_body()
    for part in (*body["target"]["shards"], body["draft"]):
        data = part["path"].encode()
        (tmp_path / part["path"]).write_bytes(data)
        part |= {"bytes": len(data), "sha256": samples.digests_of(data)}
    body["target"] |= body["target"]["shards"][0]
    body["draft"]["target_sha256"] = body["target"]["sha256"]
    plan = samples.sample_plan(target=body["target"], draft=body["draft"])
    statement = build_statement(plan, samples.plan_bytes(plan), samples.REQUEST, samples.RECORD)
    verified = verify(resigned(statement))
    assert verify_artifacts(verified, [tmp_path]).checked[-1] == "artifacts"
    (tmp_path / "draft.gguf").write_bytes(b"draft.ggux")
    with pytest.raises(PowerError) as refused:
        verify_artifacts(verified, [tmp_path])
    assert [d.code for d in refused.value.diagnostics] == ["P632"]
    assert refused.value.diagnostics[0].place == str(tmp_path / "draft.gguf")
    (tmp_path / "draft.gguf").unlink()
    with pytest.raises(PowerError) as refused:
        verify_artifacts(verified, [tmp_path])
    assert [d.code for d in refused.value.diagnostics] == ["P221"]


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
