"""Arms held against each other: gates that are met or named, and the same comparison again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.evidence.bench import Arm, report_bytes
from power.evidence.compare import Asked, Comparison, compare, pick
from power.evidence.comparing import compare_files, write_comparison
from power.evidence.files import parse
from power.evidence.render import comparison_markdown, comparison_text
from power.evidence.report import Report
from power.evidence.samples import Sample
from tests.evidence.conftest import Scripted
from tests.receipt.scripted import scripted_plan

SHA = "0" * 64
Edit = Callable[[Sample], dict[str, Any]]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A real report of a plan and its control, three samples each."""
    scripted = Scripted(tmp_path_factory.mktemp("report"))
    plan = scripted_plan("prompt-lookup")
    arms = [scripted.arm("control", plan, control=True), scripted.arm("plan", plan)]
    return scripted.run(scripted.bench(arms, rounds=3, warmup=0))


def timed(report: Report, edit: Edit) -> Report:
    """`report` with other samples: figures of prompts and arms are not looked at by ratios."""
    samples = [s.model_copy(update=edit(s)) for s in report.samples]
    return report.model_copy(update={"samples": samples})


def speed(control: int, plan: int, slow: int | None = None) -> Edit:
    """Steady microseconds for every text, by arm; `slow` for the plan's last round."""

    def edit(sample: Sample) -> dict[str, Any]:
        time = control if sample.arm == "control" else plan
        if slow is not None and sample.arm == "plan" and sample.round == 3:
            time = slow
        return {"first_token_us": 10, "first_tokens": 1, "wall_us": 10 + time}

    return edit


def own(report: Report, **asked: Any) -> Comparison:
    return compare(
        pick(report, SHA, None, first=True), pick(report, SHA, None, first=False), Asked(**asked)
    )


def missed(found: Comparison) -> list[str]:
    return [gate.name for gate in found.missed]


def test_a_plan_against_its_control(report: Report) -> None:
    found = own(timed(report, speed(300, 200)))
    assert (found.base.arm, found.candidate.arm) == ("control", "plan")
    assert (found.identity, found.same_outputs) == ([], 2)
    assert found.decode is not None
    assert (found.decode.median, found.decode.mean) == ("1.5", "1.5")
    assert (found.decode.low, found.decode.high) == ("1.5", "1.5")
    assert found.slowest_sample == "1.5"
    assert found.passed
    changed = {d.path for d in found.strategy}
    assert {"speculation.strategy", "speculation.spec_draft_max"} <= changed


@pytest.mark.parametrize(
    ("edit", "asked", "names"),
    [
        (speed(300, 200), {"min_speedup": "1.5"}, []),
        (speed(300, 200), {"min_speedup": "1.501"}, ["median_speedup"]),
        (speed(200, 300), {}, ["median_speedup"]),
        (speed(200, 300), {"min_speedup": None}, []),
        (speed(300, 200, 400), {"min_sample_speedup": "1"}, ["every_sample"]),
        (speed(300, 200, 400), {"min_sample_speedup": "0.75"}, []),
        (speed(300, 200), {"min_lower": "1.5"}, []),
        (speed(300, 200), {"min_lower": "1.6"}, ["interval"]),
        (speed(300, 200), {"min_sample_rate": "235000"}, ["every_rate"]),
        (speed(300, 200), {"min_sample_rate": "95000"}, []),
        (speed(300, 200), {"min_rate": "1000000000"}, ["median_rate"]),
    ],
)
def test_gates(report: Report, edit: Edit, asked: dict[str, Any], names: list[str]) -> None:
    assert missed(own(timed(report, edit), **asked)) == names


def test_an_output_that_differs(report: Report) -> None:
    def edit(sample: Sample) -> dict[str, Any]:
        differs = sample.arm == "plan" and sample.prompt == "sea"
        return speed(300, 200)(sample) | ({"output_ids_sha256": "f" * 64} if differs else {})

    other = timed(report, edit)
    assert missed(own(other)) == ["outputs"]
    assert own(other).same_outputs == 1
    assert [p.same_output for p in own(other).prompts] == [False, True]
    assert own(other, allow_divergence=True).passed


def test_a_busy_host(report: Report) -> None:
    busy = report.preflight[0].model_copy(update={"passed": False, "overridden": True})
    other = timed(report, speed(300, 200)).model_copy(update={"preflight": [busy]})
    assert missed(own(other)) == ["host"]
    assert own(other, allow_busy_host=True).passed


def test_one_prompt_has_no_interval(scripted: Scripted, pair: list[Arm]) -> None:
    data = b'{"id": "a", "prompt": "one two three one two"}\n'
    single = scripted.run(scripted.bench(pair, data=data, warmup=0))
    found = own(single, min_speedup="0", min_lower="0")
    assert found.decode is not None
    assert found.decode.low is None
    assert missed(found) == ["interval"]
    assert found.missed[0].found == "nothing to judge by"


def test_dead_settings_of_an_off_plan_are_no_drift(scripted: Scripted) -> None:
    """A base that runs `off` and a candidate with K, S and B: only the strategy differs."""
    arms = [
        scripted.arm("off", scripted_plan("off")),
        scripted.arm("lookup", scripted_plan("prompt-lookup")),
    ]
    found = own(scripted.run(scripted.bench(arms, warmup=0, rounds=1)), min_speedup="0")
    assert found.identity == []
    assert found.passed


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"sampling": {"temperature": 0.0, "seed": 4, "max_tokens": 48}}, "sampling.seed"),
        ({"host": {"threads": 2}}, "host.threads"),
        ({"graph": {"context": 600}}, "graph.context"),
    ],
)
def test_settings_that_are_no_strategy_are_drift(
    scripted: Scripted, change: dict[str, Any], path: str
) -> None:
    from power.plan import lock

    body = scripted_plan("ngram-context").body()
    for section, values in change.items():
        body[section] = body[section] | values
    base = scripted.run(scripted.bench([scripted.arm("a", scripted_plan("off"))], rounds=1))
    other = scripted.run(scripted.bench([scripted.arm("b", lock.seal(body))], "y.json", rounds=1))
    found = compare(
        pick(base, SHA, None, first=False),
        pick(other, SHA, None, first=False),
        Asked(min_speedup="0"),
    )
    assert path in [d.path for d in found.identity]
    assert missed(found)[0] == "identity"


def test_an_engine_of_another_build_is_drift(report: Report) -> None:
    library = {"name": "libllama.so", "digest": {"sha256": SHA}}
    engine = type(report.engine).model_validate(
        report.engine.model_dump() | {"libraries": [library]}
    )
    other = report.model_copy(update={"engine": engine})
    found = compare(
        pick(report, SHA, "plan", first=True), pick(other, SHA, "plan", first=True), Asked()
    )
    assert [d.path for d in found.identity] == ["engine.libraries.libllama.so"]


def test_other_prompts_are_drift_and_missing_ones_no_match(
    scripted: Scripted, report: Report
) -> None:
    arm = scripted.arm("plan", scripted_plan("prompt-lookup"))
    fewer = scripted.run(
        scripted.bench([arm], data=b'{"id": "sea", "prompt": "one two"}\n', rounds=3, warmup=0)
    )
    found = compare(
        pick(report, SHA, "plan", first=True), pick(fewer, SHA, None, first=True), Asked()
    )
    assert [d.path for d in found.identity] == ["prompts"]
    assert {"identity", "outputs"} <= set(missed(found))
    assert next(g for g in found.gates if g.name == "outputs").required == "2 of 2 equal"


class TestFiles:
    @pytest.fixture
    def written(self, report: Report, tmp_path: Path) -> Path:
        path = tmp_path / "r.json"
        path.write_bytes(report_bytes(timed(report, speed(300, 200))))
        return path

    def test_a_comparison_is_written_and_read_back(self, written: Path, tmp_path: Path) -> None:
        found = compare_files(written, None, Asked())
        again = compare_files(written, written, Asked(), base_arm="control")
        assert again == found
        out = tmp_path / "c.json"
        write_comparison(found, out)
        assert parse(out.read_bytes(), "c.json", Comparison) == found
        assert "." not in {type(v).__name__ for v in json.loads(out.read_text()).values()}

    def test_an_arm_that_is_not_there(self, written: Path) -> None:
        with pytest.raises(PowerError) as refused:
            compare_files(written, None, Asked(), candidate_arm="x")
        assert refused.value.diagnostics[0].code == "P831"
        assert refused.value.diagnostics[0].expected == "control, plan"

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"schema": "power.bench-report.v1"', '"schema": "power.bench-report.v2"'),
            (
                '"schema": "power.bench-report.v1",',
                '"schema": "power.bench-report.v1", "extra": 1,',
            ),
            ('"schema": "power.bench-report.v1",', ""),
            ('"schema": "power.bench-report.v1"', '"schema_": "power.bench-report.v1"'),
            ('"replays": 0', '"replays": 0.5'),
            ('"replays": 0', '"replays": "0"'),
            ('"replays": 0', '"replays": -1'),
            ('"file": "x.plan.lock"', '"file": "../x.plan.lock"'),
            ('"file": "x.plan.lock"', '"file": "/x.plan.lock"'),
            ("{", "[{"),
        ],
    )
    def test_what_is_no_report_is_refused(self, written: Path, old: str, new: str) -> None:
        text = written.read_text()
        assert old in text
        written.write_text(text.replace(old, new, 1))
        with pytest.raises(PowerError) as refused:
            compare_files(written, None, Asked())
        assert {d.code for d in refused.value.diagnostics} == {"P801"}
        assert refused.value.exit_code is ExitCode.CANNOT_JUDGE

    def test_of_a_document_of_another_kind_only_that_is_said(self, tmp_path: Path) -> None:
        other = tmp_path / "other.json"
        other.write_text('{"mediaType": "a bundle", "requests": []}')
        with pytest.raises(PowerError) as refused:
            compare_files(other, None, Asked())
        (found,) = refused.value.diagnostics
        assert found.place == f"{other}: schema"

    @pytest.mark.parametrize(
        "edit",
        [
            lambda d: d["figures"].pop(),
            lambda d: d["figures"].reverse(),
            lambda d: d["by_prompt"].pop(),
            lambda d: d["arms"][0].update(name=d["arms"][1]["name"]),
            lambda d: d["samples"][0].update(prompt="of nobody"),
            lambda d: [s.update(arm="plan") for s in d["samples"]],
            lambda d: d["samples"][0].update(first_tokens=1 << 40),
            lambda d: d["samples"][0].update(first_token_us=1 << 40),
            lambda d: d["figures"][1].update(drafted_by_position=[]),
        ],
    )
    def test_parts_of_other_arms_are_no_report(
        self, written: Path, edit: Callable[[Any], None]
    ) -> None:
        document = json.loads(written.read_text())
        edit(document)
        written.write_text(json.dumps(document))
        with pytest.raises(PowerError) as refused:
            compare_files(written, None, Asked())
        assert {d.code for d in refused.value.diagnostics} == {"P801"}

    def test_a_report_that_is_not_there(self, written: Path) -> None:
        with pytest.raises(PowerError) as refused:
            compare_files(written.with_name("rr.json"), None, Asked())
        assert "did you mean" in (refused.value.diagnostics[0].hint or "")


def test_it_reads_well(report: Report, snapshot: Any) -> None:
    other = timed(report, speed(300, 200, 400))
    found = own(other, min_sample_speedup="1", min_rate="10")
    stable = [g.model_copy(update={"found": "R"}) if "rate" in g.name else g for g in found.gates]
    found = found.model_copy(update={"gates": stable})
    assert comparison_text(found) == snapshot
    assert comparison_markdown(found) == snapshot


def test_hostile_words_are_no_markup(report: Report) -> None:
    prompt = own(report).prompts[0].model_copy(update={"prompt": "|<b>`x`|@all https://a.b www.c"})
    text = comparison_markdown(own(report).model_copy(update={"prompts": [prompt]}))
    row = next(line for line in text.splitlines() if "all https" in line)
    assert "| &#124;&#60;b&#62;&#96;x&#96;&#124;&#64;all https:&#47;&#47;a.b &#119;ww.c |" in row
