"""The lock file: canonical when written, strict when read."""

import os
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.plan import lock
from power.plan.compiler import compile_plan
from power.plan.model import Plan
from tests.plan import vectors
from tests.plan.conftest import Engine, MakeInputs

REFUSED = sorted((vectors.FOLDER / "refuse").glob("*.lock"))


@pytest.fixture
def plan(make_inputs: MakeInputs) -> Plan:
    return compile_plan(
        make_inputs(
            kind="dspark",
            max_width=7,
            fr_vocabulary=2048,
            graph={"shape": "fixed", "rows": 8, "batch": 11},
            host={"require": ["cuda"], "cpu_affinity": [0, 2], "threads": 2},
            sampling={"grammar": 'root ::= "=======\\n" # <<<<<<<\n', "repeat_penalty": 1.1},
            bounds={"min_acceptance": 0.25},
            preflight={"cpu_percent": 2, "idle_ms": 10_000},
        )
    )


def refusal(text: str) -> PowerError:
    with pytest.raises(PowerError) as caught:
        lock.loads(text, "plan.lock")
    return caught.value


def resealed(plan: Plan, change: Callable[[dict[str, Any]], None]) -> str:
    """A lock whose digest fits an edited body, as a careful forger would write it."""
    body = plan.body()
    change(body)
    return lock.dumps(lock.seal(body))


def test_what_is_written_is_read_back(plan: Plan) -> None:
    text = lock.dumps(plan)
    assert lock.loads(text, "plan.lock") == plan
    assert lock.dumps(lock.loads(text, "plan.lock")) == text


def test_the_digest_is_last_and_covers_the_rest(plan: Plan) -> None:
    document = tomllib.loads(lock.dumps(plan))
    assert list(document)[-1] == "lock"
    digest = document.pop("lock")["plan_sha256"]
    assert digest == lock.plan_sha256(document) == plan.lock.plan_sha256


def test_two_comment_lines_say_what_made_it_and_how_to_make_it_again(plan: Plan) -> None:
    first, second, third = lock.dumps(plan).split("\n")[:3]
    assert first == "# Made by `power compile` from manifest small: do not edit."
    assert "power compile MANIFEST" in second
    assert third == ""


@pytest.mark.parametrize(
    "line",
    [
        ".".join("a" * 1200) + " = 1",
        "a." * 20_000 + "a = 1",
        "[" + ".".join("a" * 500) + "]",
        "x = " + "[" * 100 + "]" * 100,
        "x = " + "{a = " * 5000 + "1" + "}" * 5000,
    ],
    ids=["dots", "many-dots", "table", "arrays", "inline-tables"],
)
def test_deep_nesting_is_refused(plan: Plan, line: str) -> None:
    (found,) = refusal(f"{lock.dumps(plan)}\n{line}\n").diagnostics
    assert (found.code, found.message) == ("P432", "the plan is nested too deeply")


def test_one_fact_a_line_and_one_shard_a_line(plan: Plan) -> None:
    shards = [{"path": f"m-{n}.gguf", "bytes": n, "sha256": f"{n}" * 64} for n in (1, 2)]
    text = resealed(plan, lambda body: body["target"].update(shards=shards))
    lines = [line for line in text.split("\n") if "m-" in line]
    assert [line.count("sha256") for line in lines] == [1, 1]
    assert lock.loads(text, "plan.lock").target.shards is not None


def test_values_are_escaped_not_spread(plan: Plan) -> None:
    (line,) = [line for line in lock.dumps(plan).split("\n") if line.startswith("grammar")]
    assert tomllib.loads(line)["grammar"] == plan.sampling.grammar


@pytest.mark.parametrize("path", REFUSED, ids=[p.stem for p in REFUSED])
def test_a_vector_is_refused_with_the_code_in_its_name(path: Path) -> None:
    """`P434-unknown-key.lock` must be refused with P434 first."""
    with pytest.raises(PowerError) as caught:
        lock.load(path)
    assert caught.value.diagnostics[0].code == path.name.split("-")[0]


def test_the_good_vector_is_read_and_still_compiled_to_the_same_bytes() -> None:
    """A change of these bytes is a change of the format: it needs a revision and an ADR."""
    path = vectors.FOLDER / "good.lock"
    assert lock.load(path).name == "small"
    assert path.read_text("utf-8") == vectors.good()


def test_the_refused_vectors_are_those_that_the_edits_make() -> None:
    good = (vectors.FOLDER / "good.lock").read_text("utf-8")
    found = {path.name: path.read_bytes() for path in REFUSED}
    assert found == vectors.refused(good)


def test_conflict_markers_have_their_own_message(plan: Plan) -> None:
    text = lock.dumps(plan).replace("threads = 2\n", "<<<<<<< ours\nthreads = 2\n=======\n")
    (found,) = refusal(text).diagnostics
    assert found.code == "P431"
    assert found.spans[0].source == "<<<<<<< ours"


def test_a_newer_version_is_told_before_its_unknown_keys(plan: Plan) -> None:
    text = lock.dumps(plan).replace("version = 1\n", "version = 2\nnovelty = 1\n", 1)
    (found,) = refusal(text).diagnostics
    assert (found.code, found.spans[0].line) == ("P433", 4)
    assert found.hint is not None
    assert "upgrade" in found.hint


def test_a_newer_revision_with_unknown_keys_says_upgrade(plan: Plan) -> None:
    text = lock.dumps(plan).replace("revision = 0\n", "revision = 1\nnovelty = 1\n", 1)
    (found,) = refusal(text).diagnostics
    assert found.code == "P434"
    assert "upgrade" in (found.hint or "")


def test_all_wrong_keys_are_told_at_once_with_their_lines(plan: Plan) -> None:
    text = (
        lock.dumps(plan)
        .replace("rows = 8", 'rows = "8"')
        .replace("main_gpu = 0", "main_gpu = true")
        .replace('level = "rule"', 'level = "lossless"')
        .replace("seed = 0\n", "")
    )
    found = refusal(text).diagnostics
    assert {d.code for d in found} == {"P434"}
    assert [d.spans[0].source for d in found if d.spans] == [
        'rows = "8"',
        "main_gpu = true",
        'level = "lossless"',
    ]
    assert any("`sampling.seed` is missing" in d.message for d in found)


def test_a_value_that_fits_no_branch_is_one_problem_under_its_own_name(plan: Plan) -> None:
    text = lock.dumps(plan).replace('gpu_layers = "all"', "gpu_layers = -5")
    (found,) = refusal(text).diagnostics
    assert found.message == "`graph.gpu_layers` is not what a plan may hold there"
    assert [span.source for span in found.spans] == ["gpu_layers = -5"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the plan is empty"),
        ("# only words\n", "the plan is empty"),
        ("[project]\nname = 'a'\n", "this is no plan"),
        ("schema = 1\n", "this is a manifest or a profile, not a plan"),
    ],
)
def test_of_another_file_one_word_is_enough(text: str, words: str) -> None:
    with pytest.raises(PowerError) as caught:
        lock.loads(text, "f")
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.place) == ("P434", words, "f")


def test_an_edited_fact_breaks_the_digest(plan: Plan) -> None:
    error = refusal(lock.dumps(plan).replace("context = 4096", "context = 8192"))
    (found,) = error.diagnostics
    assert (found.code, found.expected) == ("P435", plan.lock.plan_sha256)
    assert error.exit_code is ExitCode.BROKEN_TRUST


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("context = 4096", "context =  4096"),
        ("context = 4096", "context = 4_096"),
        ("context = 4096", "context = 4096 # more?"),
        ("temperature = 0.0", "temperature = 0"),
        ("do not edit", "edit at will"),
        ("\n\n[graph]", "\n[graph]"),
        ("cpu_affinity = [\n    0,\n    2,\n]", "cpu_affinity = [0, 2]"),
    ],
)
def test_another_layout_of_the_same_facts_is_refused(plan: Plan, old: str, new: str) -> None:
    text = lock.dumps(plan)
    assert old in text
    error = refusal(text.replace(old, new, 1))
    assert [d.code for d in error.diagnostics] == ["P436"]
    assert error.exit_code is ExitCode.BROKEN_TRUST


def test_converted_line_ends_get_a_hint_about_git(plan: Plan) -> None:
    (found,) = refusal(lock.dumps(plan).replace("\n", "\r\n")).diagnostics
    assert found.code == "P436"
    assert ".gitattributes" in (found.hint or "")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda b: b["graph"].update(batch=8), "P411"),
        (lambda b: b["graph"].update(rows=7), "P412"),
        (lambda b: b["graph"].update(context=8193), "P419"),
        (lambda b: b["speculation"].update(spec_draft_max=8, effective_snapshots=7), "P410"),
        (lambda b: b["draft"].update(target_sha256="0" * 64), "P422"),
        (lambda b: b["graph"].pop("batch"), "P424"),
        (lambda b: b["speculation"].pop("rollback"), "P424"),
        (lambda b: b["speculation"].update(effective_snapshots=3), "P424"),
        (lambda b: b["speculation"].update(strategy="dflash"), "P424"),
        (lambda b: b["speculation"].update(strategy="off"), "P415"),
        (lambda b: b["speculation"].update(fr_rule="prefix"), "P424"),
        (lambda b: b["engine"].update(capabilities=[]), "P424"),
        (lambda b: b.pop("draft"), "P424"),
    ],
)
def test_a_digest_made_to_fit_does_not_make_a_plan_sound(
    plan: Plan, change: Callable[[dict[str, Any]], None], code: str
) -> None:
    assert refusal(resealed(plan, change)).diagnostics[0].code == code


def test_the_digest_of_a_prefix_head_is_computed_again(make_inputs: MakeInputs) -> None:
    asked = {"spec_mode": "mtp", "spec_mtp_fr_vocab_size": 2048}
    plan = compile_plan(make_inputs(speculation=asked, header={"nextn_layers": 1}))
    text = resealed(plan, lambda body: body["speculation"].update(fr_sha256="0" * 64))
    (found,) = refusal(text).diagnostics
    assert (found.code, found.spans[0].source[:9]) == ("P424", "fr_sha256")


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.pop("draft"),
        lambda b: b["draft"].update(header=b["target"]["header"]),
        lambda b: b["speculation"].update(fr_rule="prefix"),
        lambda b: b["draft"]["contract"].pop("fr_vocabulary"),
    ],
    ids=["no table", "a model as the table", "another rule", "a table of no rows"],
)
def test_a_reduced_native_head_has_its_table(
    make_inputs: MakeInputs, change: Callable[[dict[str, Any]], None]
) -> None:
    inputs = make_inputs(kind="mtp", fr_vocabulary=700, header={"nextn_layers": 1})
    plan = compile_plan(inputs)
    assert {d.code for d in refusal(resealed(plan, change)).diagnostics} == {"P424"}


def test_a_table_of_another_draft_head_is_recorded_by_its_digest(make_inputs: MakeInputs) -> None:
    inputs = make_inputs(
        kind="eagle3", fr_vocabulary=2048, engine=Engine(capabilities={"eagle3": None})
    )
    assert inputs.draft is not None
    plan = compile_plan(replace(inputs, draft=replace(inputs.draft, d2t_sha256="7" * 64)))
    assert plan.speculation.fr_sha256 == "7" * 64


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "P434"),
        ("version = 1\nversion = 1\n", "P432"),
        ("[" * 50_000, "P432"),
        ("a = " + "[" * 50_000, "P432"),
        ("seed = " + "9" * 5000, "P432"),
        ("version = true\n", "P434"),
        ("version = -1\n", "P433"),
        ("version = 1\nname = {", "P432"),
    ],
)
def test_garbage_is_refused_without_a_traceback(text: str, code: str) -> None:
    assert refusal(text).diagnostics[0].code == code


def test_a_file_that_is_missing_large_or_no_file_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.lock"
    large.write_bytes(b"#" * (lock.SIZE_LIMIT + 1))
    latin = tmp_path / "latin.lock"
    latin.write_bytes(b"# caf\xe9\n")
    pipe = tmp_path / "pipe.lock"
    os.mkfifo(pipe)
    for path in (tmp_path / "none.lock", tmp_path, pipe, large, latin):
        with pytest.raises(PowerError) as caught:
            lock.load(path)
        assert caught.value.diagnostics[0].code == "P430"
