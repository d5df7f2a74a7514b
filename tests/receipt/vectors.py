"""Write the receipt vectors again:  python -m tests.receipt.vectors

Each is a receipt with the verdict it must get against `trust.toml`, `plan.lock`
and `output.txt` beside it; `index.json` lists them. The keys are those of the
tests and sign nothing else.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import rfc8785

from power.diagnostics import PowerError
from power.receipt import bundle, dsse, keys
from power.receipt.statement import build_statement
from tests.receipt import samples
from tests.receipt.documents import put, without

FOLDER = Path(__file__).parents[1] / "vectors" / "receipts"
KEY = samples.KEYS["ed25519"]
STATEMENT = samples.sample_statement()
PAYLOAD = rfc8785.dumps(STATEMENT)
ACCEPT = "accept"
TRUST = """\
schema = 1

[key.ed25519]
public_key = "ed25519.pub"

[key.p256]
public_key = "p256.pub"
not_before = 2026-01-01T00:00:00Z
not_after = 2026-12-31T23:59:59Z

[key.stolen]
public_key = "stolen.pub"
revoked = { at = 2026-09-01T00:00:00Z, reason = "the laptop was stolen" }

[key.expired]
public_key = "expired.pub"
not_after = 2026-08-01T00:00:00Z
"""


@dataclass(frozen=True)
class Vector:
    """A receipt, and `accept` or the codes of its refusal, with spaces between."""

    name: str
    verdict: str
    why: str
    data: bytes


def signed(statement: Any) -> bytes:
    return bundle.sign(statement, KEY)


def sealed(payload: bytes, payload_type: str = dsse.PAYLOAD_TYPE) -> bytes:
    return bundle.encode(dsse.seal(payload, KEY, payload_type))


def p256_receipt() -> bytes:
    """ECDSA draws a new signature each time: the one that is there stays while it holds."""
    private = samples.KEYS["p256"]
    try:
        there = (FOLDER / "p256.sigstore.json").read_bytes()
        envelope = bundle.decode(there)
    except (OSError, PowerError):
        return bundle.sign(STATEMENT, private)
    holds = envelope.payload == PAYLOAD and envelope.signed_by(private.public_key())
    return there if holds else bundle.sign(STATEMENT, private)


def accepted() -> Iterator[Vector]:
    yield Vector("ed25519", ACCEPT, "Ed25519, with every optional part", signed(STATEMENT))
    yield Vector("p256", ACCEPT, "the same run, signed with ECDSA P-256", p256_receipt())
    control = signed(samples.control_statement())
    yield Vector("control", ACCEPT, "the control run of the same request: the same claim", control)
    pretty = json.dumps(json.loads(signed(STATEMENT)), indent=2).encode() + b"\n"
    yield Vector("pretty", ACCEPT, "white space of the bundle is not signed", pretty)


def untrusted() -> Iterator[Vector]:
    envelope = bundle.decode(signed(STATEMENT))
    for name, code, why in (
        ("stolen", "P615", "the key is revoked"),
        ("expired", "P614", "the run ended outside the key's window"),
        ("stranger", "P613", "the key is not in the trust file"),
    ):
        yield Vector(name, code, why, bundle.sign(STATEMENT, samples.ed25519_key(name)))
    forged = dsse.seal(PAYLOAD, samples.ed25519_key("stranger"))
    borrowed = bundle.encode(replace(forged, keyid=envelope.keyid))
    yield Vector("borrowed-keyid", "P624", "a stranger signs under a trusted keyid", borrowed)
    bit = envelope.signature[:-1] + bytes([envelope.signature[-1] ^ 1])
    flipped = bundle.encode(replace(envelope, signature=bit))
    yield Vector("flipped-signature", "P624", "one bit of the signature", flipped)
    payload = PAYLOAD.replace(b'"accepted":9', b'"accepted":8')
    changed = bundle.encode(replace(envelope, payload=payload))
    yield Vector("changed-payload", "P624", "one number after signing", changed)
    other = bundle.encode(replace(envelope, payload_type="application/json"))
    yield Vector("changed-type", "P624", "the payload's type is signed as well", other)
    spaced = bundle.encode(replace(envelope, payload=PAYLOAD + b"\n"))
    yield Vector("added-line-end", "P624", "white space of the payload is signed", spaced)


def misshapen() -> Iterator[Vector]:
    document = json.loads(signed(STATEMENT))

    def changed(path: tuple[str | int, ...], value: Any) -> bytes:
        return json.dumps(put(document, path, value)).encode()

    signatures = document["dsseEnvelope"]["signatures"]
    two = changed(("dsseEnvelope", "signatures"), signatures * 2)
    yield Vector("two-signatures", "P621", "exactly one signature", two)
    none = changed(("dsseEnvelope", "signatures"), [])
    yield Vector("no-signature", "P621", "exactly one signature", none)
    hint = changed(("verificationMaterial", "publicKey", "hint"), "A" * 43 + "=")
    yield Vector("other-hint", "P622", "hint and keyid name two keys", hint)
    log = changed(("verificationMaterial", "tlogEntries"), [{"logIndex": "1"}])
    yield Vector("log-entry", "P620", "a log entry that nothing here can check", log)
    old = changed(("mediaType",), "application/vnd.dev.sigstore.bundle+json;version=0.2")
    yield Vector("bundle-v0.2", "P620", "another version of the bundle", old)
    spare = changed(("dsseEnvelope", "signatures", 0, "sig"), signatures[0]["sig"][:-3] + "/==")
    yield Vector("spare-bits", "P620", "base64 with bits that mean nothing", spare)
    twice = signed(STATEMENT).replace(b'"hint":', b'"hint":"","hint":')
    yield Vector("key-twice", "P620", "a key of the bundle twice", twice)
    deep = b'{"mediaType":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    yield Vector("deep", "P620", "nesting that would exhaust a parser's stack", deep)


def unreadable() -> Iterator[Vector]:
    for name, why, payload in (
        ("payload-key-twice", "a key of the statement twice", PAYLOAD[:-1] + b',"_type":"x"}'),
        ("float", "7.0 is no integer", PAYLOAD.replace(b'"seed":7', b'"seed":7.0')),
        ("boolean", "true is no integer", PAYLOAD.replace(b'"seed":7', b'"seed":true')),
        ("huge", "beyond 2^53", PAYLOAD.replace(b'"seed":7', b'"seed":9007199254740993')),
        ("surrogate", "no UTF-8", PAYLOAD.replace(b'"A CPU"', b'"\\ud800"')),
        ("unknown-field", "a fact nobody checks", PAYLOAD[:-1] + b',"speedup":"9.9"}'),
        ("not-a-statement", "no in-toto statement", b"[]"),
    ):
        yield Vector(name, "P625", why, sealed(payload))
    other = sealed(PAYLOAD, "application/json")
    yield Vector("other-type", "P625", "signed as another type of payload", other)
    predicate = signed(put(STATEMENT, ("predicateType",), "https://slsa.dev/provenance/v1"))
    yield Vector("other-predicate", "P625", "another predicate", predicate)
    missing = signed(without(STATEMENT, ("predicate", "claim_sha256")))
    yield Vector("no-claim", "P625", "a field that must be there", missing)
    fourth = signed(put(STATEMENT, ("subject",), [*STATEMENT["subject"], STATEMENT["subject"][0]]))
    yield Vector("four-subjects", "P625", "exactly three subjects", fourth)


def untrue() -> Iterator[Vector]:
    plan, ids, text = STATEMENT["subject"]
    swapped = [plan, text, ids]
    execution = ("predicate", "execution")
    for name, code, why, path, value in (
        ("subjects-swapped", "P626 P631", "their order is fixed", ("subject",), swapped),
        ("accepted-more", "P626", "more accepted than drafted", (*execution, "accepted"), 17),
        ("tokens-more", "P626", "more than rounds emit", (*execution, "output_tokens"), 20),
        (
            "position-behind",
            "P626",
            "accepted behind a rejected one",
            (*execution, "accepted_by_position"),
            [3, 3, 1, 2],
        ),
        ("phases", "P626", "phases and wall time", ("predicate", "timing", "wall_us"), 9_999),
        (
            "bound-met",
            "P626",
            "a bound judged wrongly",
            ("predicate", "bounds", "min_acceptance", "met"),
            False,
        ),
        ("claim", "P626", "another claim", ("predicate", "claim_sha256"), "0" * 64),
        (
            "plan-digest",
            "P626 P633",
            "plan and subject",
            ("predicate", "plan", "digest", "sha256"),
            "0" * 64,
        ),
        ("level", "P633", "not the plan's level", ("predicate", "exactness", "level"), "serial"),
        (
            "draft-digest",
            "P633",
            "not the plan's draft",
            ("predicate", "artifacts", 2, "digest", "sha256"),
            "0" * 64,
        ),
        ("engine", "P633", "not the plan's engine", ("predicate", "engine", "version"), "0.3.37"),
    ):
        yield Vector(name, code, why, signed(put(STATEMENT, path, value)))
    off = signed(samples.off_statement())
    yield Vector("other-plan", "P630", "a genuine receipt of another plan", off)
    record = replace(samples.RECORD, text=b"Another text.")
    sample = samples.sample_plan()
    output = signed(build_statement(sample, samples.plan_bytes(sample), samples.REQUEST, record))
    yield Vector("other-output", "P631", "a genuine receipt of another output", output)


def vectors() -> list[Vector]:
    return [*accepted(), *untrusted(), *misshapen(), *unreadable(), *untrue()]


def files() -> dict[str, bytes]:
    """Every file of this folder that is made here, by name."""
    made = {f"{v.name}.sigstore.json": v.data for v in vectors()}
    index = [
        {"file": f"{v.name}.sigstore.json", "verdict": v.verdict, "why": v.why} for v in vectors()
    ]
    made["index.json"] = json.dumps(index, indent=2).encode() + b"\n"
    made["plan.lock"] = samples.plan_bytes(samples.sample_plan())
    made["output.txt"] = samples.OUTPUT
    made["trust.toml"] = TRUST.encode()
    for kind, private in samples.KEYS.items():
        made[f"{kind}.pub"] = keys.public_pem(private.public_key())
    for name in ("stolen", "expired"):
        made[f"{name}.pub"] = keys.public_pem(samples.ed25519_key(name).public_key())
    return made


if __name__ == "__main__":
    for name, data in files().items():
        (FOLDER / name).write_bytes(data)
