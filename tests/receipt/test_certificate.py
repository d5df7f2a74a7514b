"""Certificates: the level follows from the measurements, and lies are refused where they show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from power.diagnostics import ExitCode, PowerError
from power.manifest.load import load_profile
from power.manifest.meaning import profile_sha256
from power.manifest.shipped import shipped
from power.plan.exactness import Shown, shows
from power.plan.lock import loads
from power.receipt import bundle, dsse
from power.receipt.certificate import (
    Certificate,
    Padding,
    RowsPart,
    RunsPart,
    SerialPart,
    common_classes,
    contradictions,
    shown_level,
)
from power.receipt.certified import Certified, other_place, verify_certificate
from power.receipt.digests import sha256
from power.receipt.keys import load_public
from power.receipt.predicate import GraphPart
from power.receipt.statement import build_statement, engine_part, host_part
from power.receipt.trust import trust_in
from power.receipt.verify import verify_receipt
from tests.receipt import samples
from tests.receipt.certificates import (
    ROWS,
    RUNS,
    SERIAL,
    certificate,
    equal_runs,
    equal_serial,
    one_class,
    sample_certificate,
)
from tests.receipt.documents import changed, places, put, tampered, without

KEY = samples.KEYS["ed25519"]
PUBLIC = KEY.public_key()
TRUST = trust_in(PUBLIC)
FIXED = GraphPart(shape="fixed", batch=6, rows=5)
NATURAL = GraphPart(shape="natural", batch=6)


def signed(statement: Any) -> bytes:
    return bundle.sign(statement, KEY)


def refused(data: bytes, **how: Any) -> PowerError:
    with pytest.raises(PowerError) as caught:
        verify_certificate(data, **({"trust": TRUST} | how))
    return caught.value


def codes(error: PowerError) -> set[str]:
    return {diagnostic.code for diagnostic in error.diagnostics}


def padded(*, equal: bool) -> RowsPart:
    return one_class().model_copy(update={"padding": [Padding(real=1, token=0, equal=equal)]})


@pytest.mark.parametrize(
    ("graph", "rows", "runs", "serial", "level"),
    [
        (FIXED, ROWS, RUNS, SERIAL, "rule"),  # a fork
        (FIXED, ROWS, equal_runs(), SERIAL, "shape"),
        (FIXED, ROWS, equal_runs(), None, "shape"),
        (FIXED, ROWS, equal_runs(), equal_serial(), "shape"),  # equal by luck: the bits differ
        (FIXED, one_class(), equal_runs(), SERIAL, "shape"),  # equal bits, and yet a fork
        (FIXED, one_class(), equal_runs(), None, "shape"),
        (FIXED, one_class(), equal_runs(), equal_serial(), "serial"),
        (FIXED, padded(equal=False), equal_runs(), equal_serial(), "rule"),
        (NATURAL, ROWS, equal_runs(), None, "rule"),  # equal by luck
        (NATURAL, one_class(), RUNS, None, "rule"),
        (NATURAL, one_class(), equal_runs(), None, "serial"),
    ],
)
def test_the_level_is_what_the_measurements_show(
    graph: GraphPart, rows: RowsPart, runs: RunsPart, serial: SerialPart | None, level: str
) -> None:
    assert shown_level(graph, rows, runs, serial) == level


def test_counts_are_in_one_class_where_they_are_everywhere() -> None:
    assert common_classes([[[1, 2, 3, 4]]]) == [[1, 2, 3, 4]]
    assert common_classes([[[1, 2], [3, 4]], [[1, 3], [2, 4]]]) == [[1], [2], [3], [4]]
    assert common_classes([[[1], [2, 3, 4]], [[1, 2], [3, 4]]]) == [[1], [2], [3, 4]]


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_a_certificate_holds(kind: str) -> None:
    private = samples.KEYS[kind]
    data = bundle.sign(sample_certificate(), private)
    found = verify_certificate(data, trust_in(private.public_key()))
    assert found.statement.document() == sample_certificate()
    assert found.sha256 == sha256(data)
    assert found.shown == Shown(samples.sample_plan().lock.plan_sha256, "rule")


@pytest.mark.parametrize(("name", "statement"), list(tampered(sample_certificate())))
def test_a_changed_certificate_fails_under_the_old_signature(name: str, statement: Any) -> None:
    envelope = bundle.decode(signed(sample_certificate()))
    forged = replace(envelope, payload=rfc8785.dumps(statement))
    assert codes(refused(bundle.encode(forged))) == {"P624"}


def test_trust_comes_from_outside() -> None:
    other = samples.ed25519_key("another").public_key()
    error = refused(signed(sample_certificate()), trust=trust_in(other))
    assert codes(error) == {"P613"}
    assert error.exit_code is ExitCode.BROKEN_TRUST
    assert "the certificate names a key" in error.diagnostics[0].message


def test_a_receipt_is_no_certificate_and_a_certificate_no_receipt() -> None:
    (receipt,) = refused(signed(samples.sample_statement())).diagnostics
    assert (receipt.code, receipt.hint) == ("P625", "this is a receipt: `power verify` takes it")
    with pytest.raises(PowerError) as caught:
        verify_receipt(signed(sample_certificate()), TRUST)
    (found,) = caught.value.diagnostics
    assert (found.code, found.hint) == ("P625", "this is a certificate: `--certificate` takes it")
    assert codes(refused(b"{}")) == {"P620"}
    payload = rfc8785.dumps(sample_certificate()).replace(b'"span":8', b'"span":8.0')
    assert codes(refused(bundle.encode(dsse.seal(payload, KEY)))) == {"P625"}


SEEN = [
    "subject.0.name",
    "subject.0.digest.sha256",
    "predicate.plan.digest.sha256",
    "predicate.level",
    "predicate.graph.rows",
    "predicate.rows.counts.0",
    "predicate.rows.counts.4",
    "predicate.rows.classes.0.0",
    "predicate.rows.by_cells.0.classes.1.1",
    "predicate.runs.prompts",
    "predicate.runs.arms.0.runs",
    "predicate.runs.arms.0.equal",
    "predicate.runs.arms.4.replayed",
    "predicate.serial.runs",
    "predicate.serial.equal",
]


@pytest.mark.parametrize("name", SEEN)
def test_a_signed_lie_is_refused_where_it_can_be_seen(name: str) -> None:
    document = sample_certificate()
    path, value = next(
        (p, v) for p, v in places(document) if ".".join(str(part) for part in p) == name
    )
    lie = "shape" if name == "predicate.level" else changed(value)
    error = refused(signed(put(document, path, lie)))
    assert codes(error) == {"P626"}
    assert error.exit_code is ExitCode.BROKEN_TRUST


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("predicate", "runs", "forks"), []),
        (("predicate", "runs", "arms"), []),
        (("predicate", "runs", "forks", 0, "prompt"), 4),
        (("predicate", "runs", "forks", 0, "token"), 32),
        (("predicate", "runs", "forks", 0, "proposer"), "none"),
        (("predicate", "runs", "arms", 0, "accepted"), 41),
        (("predicate", "serial", "forks"), []),
        (("predicate", "serial", "forks", 0, "proposer"), "own"),
        (("predicate", "graph"), {"shape": "natural"}),
        (("predicate", "started"), "2026-08-23T10:31:18Z"),
        (("predicate", "started"), "2026-13-23T10:31:18Z"),
    ],
)
def test_measurements_that_cannot_be_are_refused(path: Any, value: Any) -> None:
    assert codes(refused(signed(put(sample_certificate(), path, value)))) == {"P626"}


def test_a_row_count_of_the_plans_passes_cannot_be_left_out() -> None:
    """At a natural shape every count up to K + 1 may come up."""
    document = sample_certificate()
    rows = document["predicate"]["rows"] | {"counts": [1, 2, 3], "classes": [[1, 2, 3]]}
    rows["by_cells"] = [{"cells": 9, "classes": [[1, 2, 3]]}]
    rows["padding"] = []
    predicate = document["predicate"] | {"rows": rows, "graph": {"shape": "natural", "batch": 6}}
    del predicate["serial"]
    (found,) = contradictions(Certificate.model_validate(document | {"predicate": predicate}))
    assert "a row count of the plan's passes is missing" in found.message


class TestPlace:
    """A certificate holds for one engine build, one CPU and one number of threads."""

    certified = Certified(certificate(), b"", "k", "id")
    engine, host = samples.RECORD.engine, samples.RECORD.host

    def other(self, **changes: Any) -> list[tuple[str | None, str | None, str | None]]:
        engine = replace(
            self.engine, **{k: v for k, v in changes.items() if hasattr(self.engine, k)}
        )
        host = replace(self.host, **{k: v for k, v in changes.items() if hasattr(self.host, k)})
        found = other_place(self.certified, engine_part(engine), host_part(host, engine))
        assert {d.code for d in found} <= {"P635"}
        return [(d.place, d.expected, d.found) for d in found]

    def test_the_same_place_is_accepted(self) -> None:
        assert self.other(os="Linux 7", memory_bytes=1, physical_cores=64) == []

    @pytest.mark.parametrize(
        ("field", "value", "place"),
        [
            ("version", "0.4", "engine.version"),
            ("llama_cpp", "b1", "engine.llama_cpp"),
            ("cpu", "Another CPU", "host.cpu"),
            ("machine", "aarch64", "host.machine"),
            ("threads", 1, "host.threads"),
            ("devices", ["CUDA0"], "host.devices"),
        ],
    )
    def test_drift_is_told_by_the_fact(self, field: str, value: Any, place: str) -> None:
        ((found_place, expected, found),) = self.other(**{field: value})
        assert (found_place, found) == (place, value[0] if field == "devices" else str(value))
        assert expected not in {None, found}

    def test_every_library_is_compared(self) -> None:
        libraries = {"libllama.so": samples.digest("other"), "libmore.so": samples.digest("more")}
        assert {place for place, _, _ in self.other(libraries=libraries)} == {
            "engine.libraries.libllama.so",
            "engine.libraries.libggml.so",
            "engine.libraries.libmore.so",
        }


class TestReceipt:
    """`power verify` holds a receipt against the certificate that it names."""

    def receipt(self, certificate: bytes | None) -> bytes:
        plan = samples.sample_plan()
        data = samples.plan_bytes(plan)
        statement = build_statement(
            plan, data, samples.REQUEST, samples.RECORD, certificate=certificate
        )
        return signed(statement)

    def certified(self, document: Any) -> Certified:
        return verify_certificate(signed(document), TRUST)

    def test_the_certificate_that_it_names_is_accepted(self) -> None:
        shape = self.certified(certificate(runs=equal_runs()).document())
        receipt = self.receipt(shape.data)
        found = verify_receipt(receipt, TRUST, certificate=shape)
        assert found.checked == ("signature", "consistency", "certificate")

    def test_another_one_and_a_lower_level_are_refused(self) -> None:
        rule = self.certified(sample_certificate())
        for receipt, messages in (
            (self.receipt(rule.data), {"the certificate shows less than the receipt claims"}),
            (self.receipt(None), {"the receipt names another certificate"}),
        ):
            with pytest.raises(PowerError) as caught:
                verify_receipt(receipt, TRUST, certificate=rule)
            assert codes(caught.value) == {"P634"}
            assert messages <= {d.message for d in caught.value.diagnostics}

    def test_one_of_another_host_is_refused(self) -> None:
        document = certificate(runs=equal_runs()).document()
        document["predicate"]["host"]["threads"] = 1
        elsewhere = self.certified(document)
        with pytest.raises(PowerError) as caught:
            verify_receipt(self.receipt(elsewhere.data), TRUST, certificate=elsewhere)
        assert codes(caught.value) == {"P635"}


def test_a_margin_may_be_missing() -> None:
    document = without(sample_certificate(), ("predicate", "runs", "forks", 0, "margin"))
    assert verify_certificate(signed(document), TRUST).shown.level == "rule"


@pytest.mark.parametrize(
    "path",
    sorted((shipped("profiles") / "evidence").glob("*.cert.sigstore.json")),
    ids=lambda p: p.name,
)
def test_a_certificate_that_ships_holds_and_shows_what_its_profile_claims(path: Path) -> None:
    name = path.name.partition(".")[0]
    key = load_public(path.parent / "signer.pub")
    found = verify_certificate(path.read_bytes(), trust_in(key), name=path.name)
    profile = load_profile(path.parent.parent / f"{name}.toml").profile
    runs, rows = found.statement.predicate.runs, found.statement.predicate.rows
    (entry,) = (e for e in profile.evidence if e.report == f"evidence/{path.name}")
    assert entry.report_sha256 == found.sha256
    assert entry.figures == {
        "prompts_count": runs.prompts,
        "runs_count": runs.prompts * len(runs.arms),
        "equal_runs_count": sum(arm.equal for arm in runs.arms),
        "equal_classes_count": len(rows.classes),
        "largest_pass_rows": max(rows.counts),
        "context_tokens": rows.by_cells[-1].cells + rows.span,
    }
    target = found.statement.predicate.artifacts[0]
    assert entry.artifact_sha256 == target.digest.sha256
    data = path.with_name(f"{path.name.removesuffix('.cert.sigstore.json')}.lock").read_bytes()
    plan = loads(data.decode(), path.name)
    assert shows(found.shown.level, plan.exactness.level)
    assert found.statement.predicate.plan.digest.sha256 == sha256(data)
    assert plan.profile is not None
    assert plan.profile.sha256 == profile_sha256(profile)
