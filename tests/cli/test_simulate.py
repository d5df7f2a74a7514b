"""`power simulate` on a recorded trace."""

from __future__ import annotations

from collections.abc import Callable

from power.evidence.trace import trace_bytes
from tests.cli.conftest import Bench, Result
from tests.evidence.test_planner import traced
from tests.property.harness import Case

Snapshot = Callable[[Result], None]
CASE = Case(max_tokens=20, left=90, seed=1)


def test_the_settings_of_a_trace(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.write("t.trace.json", trace_bytes(traced(CASE)).decode())
    snapshot_of(bench("simulate", "t.trace.json"))


def test_a_trace_where_nothing_pays(bench: Bench, snapshot_of: Snapshot) -> None:
    dear = {"1": "1", "2": "3"}
    bench.write("t.trace.json", trace_bytes(traced(CASE, dear)).decode())
    snapshot_of(bench("simulate", "t.trace.json"))


def test_json_has_every_setting(bench: Bench) -> None:
    bench.write("t.trace.json", trace_bytes(traced(CASE)).decode())
    found = bench("simulate", "t.trace.json", "--fixed", "--format", "json").json
    assert found["chosen"] in found["settings"]
    assert {one["shape"] for one in found["settings"]} == {"fixed"}


def test_what_is_no_trace(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.write("t.trace.json", "{}")
    snapshot_of(bench("simulate", "t.trace.json"))
