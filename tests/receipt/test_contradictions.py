"""Signed statements that cannot be true: judged by arithmetic, by the plan and by the output."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from power.diagnostics import ExitCode, PowerError
from power.receipt import bundle, dsse
from power.receipt.statement import build_statement
from power.receipt.verify import verify_artifacts
from tests.receipt import samples
from tests.receipt.documents import changed, places, put, without
from tests.receipt.signing import KEY, PLAN, RECEIPT, STATEMENT, codes, refusal, resigned, verify


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
        ("predicate", "timing", "first_tokens"),
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
        (("predicate", "execution", "fr_covered_tokens"), 16,
         "predicate.execution.fr_covered_tokens"),
        (("predicate", "execution", "widths", "fr_rule"), "full",
         "predicate.execution.fr_covered_tokens"),
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


def test_the_coverage_of_a_reduced_head_is_counted() -> None:
    error = refusal(resigned(without(STATEMENT, ("predicate", "execution", "fr_covered_tokens"))))
    assert [(d.place, d.found) for d in error.diagnostics] == [
        ("predicate.execution.fr_covered_tokens", "absent")
    ]


@pytest.mark.parametrize(
    ("name", "value"), [("drafted", 1), ("replays", 1), ("widths", {"draft_max": 4})]
)
def test_a_run_without_a_proposer_speculates_nothing(name: str, value: Any) -> None:
    statement = put(samples.off_statement(), ("predicate", "execution", name), value)
    error = refusal(resigned(statement))
    assert f"predicate.execution.{name}" in {d.place for d in error.diagnostics}


def test_padding_may_have_had_to_be_dropped_by_a_replay() -> None:
    replayed = put(samples.off_statement(), ("predicate", "execution", "replays"), 1)
    fixed = put(replayed, ("predicate", "execution", "graph"), {"shape": "fixed", "rows": 8})
    assert verify(resigned(fixed)).statement.predicate.execution.replays == 1


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
