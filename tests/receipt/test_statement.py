"""Statements: exactly the facts of FORMATS, no floats, nothing that must stay private."""

import hashlib
import json
import struct
from dataclasses import replace
from typing import Any

import pytest

from power.diagnostics import PowerError
from power.receipt import claim, digests
from power.receipt.predicate import Statement
from power.receipt.statement import build_statement
from power.runner.types import Request, RunRecord
from tests.receipt import samples


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def build(record: RunRecord, request: Request = samples.REQUEST) -> dict[str, Any]:
    plan = samples.sample_plan()
    return build_statement(plan, samples.plan_bytes(plan), request, record)


def test_subjects_are_plan_token_ids_and_text() -> None:
    statement = samples.sample_statement()
    plan = samples.plan_bytes(samples.sample_plan())
    ids = b"power-token-ids-v1\0" + struct.pack("<15I", *range(100, 115))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "urn:power:speculative-run:v1"
    assert statement["subject"] == [
        {"name": "plan", "digest": {"sha256": hashlib.sha256(plan).hexdigest()}},
        {"name": "output-token-ids", "digest": {"sha256": hashlib.sha256(ids).hexdigest()}},
        {"name": "output-text", "digest": {"sha256": hashlib.sha256(samples.OUTPUT).hexdigest()}},
    ]


@pytest.mark.parametrize(
    "statement",
    [samples.sample_statement(), samples.control_statement(), samples.off_statement()],
    ids=["sample", "control", "off"],
)
def test_leaves_are_texts_integers_and_booleans(statement: dict[str, Any]) -> None:
    assert {type(leaf) for leaf in leaves(statement)} <= {str, int, bool}
    assert Statement.model_validate(statement).document() == statement


def test_prompt_and_output_are_not_in_it() -> None:
    text = json.dumps(samples.sample_statement(), ensure_ascii=False)
    assert samples.PROMPT.strip() not in text
    assert samples.OUTPUT.decode() not in text
    assert json.dumps(samples.REQUEST.stop[0])[1:-1] not in text


def test_decimals_are_strings() -> None:
    predicate = samples.sample_statement()["predicate"]
    assert predicate["request"]["sampling"]["temperature"] == "0.7"
    assert predicate["request"]["sampling"]["typical_p"] == "1"
    assert predicate["execution"]["widths"]["draft_p_min"] == "0.05"
    assert predicate["bounds"]["min_acceptance"] == {"required": "0.5", "met": True}


def test_a_split_target_has_one_descriptor_a_shard() -> None:
    artifacts = samples.sample_statement()["predicate"]["artifacts"]
    assert [(a["name"], a["annotations"].get("shard")) for a in artifacts] == [
        ("target-00001-of-00002.gguf", 1),
        ("target-00002-of-00002.gguf", 2),
        ("draft.gguf", None),
    ]
    assert [a["annotations"]["role"] for a in artifacts] == ["target", "target", "draft"]


def test_a_plan_without_speculation_has_no_widths() -> None:
    predicate = samples.off_statement()["predicate"]
    assert "widths" not in predicate["execution"]
    assert "bounds" not in predicate
    assert "certificate_sha256" not in predicate["exactness"]


def test_a_control_run_is_marked_and_has_no_bound() -> None:
    predicate = samples.control_statement()["predicate"]
    assert predicate["request"]["control"] is True
    assert predicate["plan"]["strategy"] == "eagle3"
    assert predicate["execution"]["strategy"] == "off"
    assert predicate["execution"]["graph"]["rows"] == 5
    assert "bounds" not in predicate


@pytest.mark.parametrize(
    ("accepted", "drafted", "required", "met"),
    [
        (1, 4, "0.25", True),
        (1, 10, "0.1", True),  # 0.1 as a double is above a tenth
        (3, 10, "0.3", True),  # and 0.3 below three tenths
        (249_999, 1_000_000, "0.25", False),
        (0, 0, "0", False),
        (0, 5, "0", True),
        (5, 5, "1", True),
    ],
)
def test_bounds_are_compared_as_fractions(
    accepted: int, drafted: int, required: str, met: bool
) -> None:
    from power.receipt.consistency import acceptance_met

    assert acceptance_met(required, accepted, drafted) is met


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (100.0, "100"),
        (0.1, "0.1"),
        (1e-7, "0.0000001"),
        (-2.5, "-2.5"),
        (1e22, "10000000000000000000000"),
    ],
)
def test_decimal(value: float, text: str) -> None:
    assert digests.decimal(value) == text


def test_a_run_and_its_control_make_the_same_claim() -> None:
    sample, control = samples.sample_statement(), samples.control_statement()
    assert sample["predicate"]["claim_sha256"] == control["predicate"]["claim_sha256"]
    assert sample["predicate"]["execution"] != control["predicate"]["execution"]


@pytest.mark.parametrize(
    "change",
    [
        {"started": "2027-01-01T00:00:00Z", "finished": "2027-01-01T00:00:00.5Z"},
        {"host": replace(samples.RECORD.host, cpu="Another", threads=64)},
        {"engine": replace(samples.RECORD.engine, libraries={}, devices=["GPU 0"])},
        {"peak_rss_bytes": 1, "notes": []},
        {"first_token_us": None, "first_tokens": 0},
    ],
    ids=",".join,
)
def test_a_claim_does_not_depend_on(change: dict[str, Any]) -> None:
    again = build(replace(samples.RECORD, **change))
    assert (
        again["predicate"]["claim_sha256"]
        == samples.sample_statement()["predicate"]["claim_sha256"]
    )


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_ids": (1, 2, 3)},
        {"ids": tuple(range(101, 116))},
        {"text": samples.OUTPUT + b"\n"},
        {"seed": 8},
        {"max_tokens": 31},
    ],
    ids=",".join,
)
def test_a_claim_depends_on(change: dict[str, Any]) -> None:
    again = build(replace(samples.RECORD, **change))
    assert (
        again["predicate"]["claim_sha256"]
        != samples.sample_statement()["predicate"]["claim_sha256"]
    )


def test_a_claim_depends_on_the_stop_sequences() -> None:
    claims = {
        build(samples.RECORD, replace(samples.REQUEST, stop=stop))["predicate"]["claim_sha256"]
        for stop in ((), ("\n\n",), ("\n", "\n"), ("a", "b"), ("b", "a"), ("ab",))
    }
    assert len(claims) == 6


def test_a_claim_depends_on_every_sampling_setting_and_the_target() -> None:
    claims = [samples.sample_statement()["predicate"]["claim_sha256"]]
    sampling = samples.plan_body()["sampling"]
    changed: dict[str, Any] = {
        key: 'root ::= "x"' if key == "grammar" else value / 2
        for key, value in sampling.items()
        if key not in {"seed", "max_tokens", "top_k", "repeat_last_n"}
        for value in [value if key != "grammar" else 0]
    } | {"top_k": 41, "repeat_last_n": 65}
    plans = [samples.sample_plan(sampling=sampling | {k: v}) for k, v in changed.items()]
    target = samples.plan_body()["target"]
    target["shards"][1]["sha256"] = samples.digest("another")
    plans.append(samples.sample_plan(target=target))
    for plan in plans:
        statement = build_statement(plan, samples.plan_bytes(plan), samples.REQUEST, samples.RECORD)
        claims.append(statement["predicate"]["claim_sha256"])
    assert len(set(claims)) == len(claims) == 10


def test_token_digests_have_their_own_domain() -> None:
    ids = (1, 2)
    assert digests.token_ids_sha256(ids) != digests.sha256(struct.pack("<2I", *ids))
    assert digests.token_ids_sha256(()) == digests.sha256(b"power-token-ids-v1\0")
    assert len({digests.TOKEN_IDS_DOMAIN, digests.STOP_DOMAIN, digests.SAMPLING_DOMAIN,
                digests.CLAIM_DOMAIN}) == 4  # fmt: skip


def test_the_claim_is_recomputed_from_the_statement_alone() -> None:
    statement = Statement.model_validate(samples.sample_statement())
    assert claim.claim_of(statement) == statement.predicate.claim_sha256


@pytest.mark.parametrize("finish", ["cancelled", "failed"])
def test_an_unfinished_run_is_not_signed(finish: str) -> None:
    with pytest.raises(PowerError) as refused:
        build(replace(samples.RECORD, finish=finish))
    assert [d.code for d in refused.value.diagnostics] == ["P650"]


@pytest.mark.parametrize(
    ("record", "request_"),
    [
        (replace(samples.RECORD, strategy="off"), samples.REQUEST),
        (replace(samples.RECORD, strategy="prompt-lookup"), samples.REQUEST),
        (samples.control_record(), samples.REQUEST),
        (samples.RECORD, replace(samples.REQUEST, control=True)),
        (replace(samples.control_record(), control=False), samples.REQUEST),
    ],
)
def test_a_run_of_another_strategy_is_not_signed(record: RunRecord, request_: Request) -> None:
    with pytest.raises(PowerError) as refused:
        build(record, request_)
    assert [d.code for d in refused.value.diagnostics] == ["P650"]


def test_a_malformed_record_is_not_signed() -> None:
    with pytest.raises(PowerError) as refused:
        build(replace(samples.RECORD, peak_rss_bytes=-1, finish="nonsense"))
    assert [(d.code, d.place) for d in refused.value.diagnostics] == [
        ("P650", "finish"),
        ("P650", "peak_rss_bytes"),
    ]


def test_a_record_that_contradicts_itself_is_not_signed() -> None:
    counters = samples.RECORD.counters | {"accepted": 10}
    with pytest.raises(PowerError) as refused:
        build(replace(samples.RECORD, counters=counters))
    assert {d.code for d in refused.value.diagnostics} == {"P626"}
