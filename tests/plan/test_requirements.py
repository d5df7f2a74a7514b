"""What a run checks besides artifacts: engine, host, and the exactness that is claimed."""

from dataclasses import replace
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.plan.compiler import compile_plan
from power.plan.exactness import Shown, needs_certificate, require_level
from power.plan.host import HostFacts, check_engine, check_host, read_host
from power.plan.model import Plan
from tests.plan.conftest import Engine, MakeInputs

FIXED = {"shape": "fixed", "rows": 8}


@pytest.fixture
def plan(make_inputs: MakeInputs) -> Plan:
    return compile_plan(make_inputs(speculation={"spec_mode": "prompt-lookup"}))


def test_the_engine_of_the_plan_is_accepted(plan: Plan, engine: Engine) -> None:
    check_engine(plan, engine)


@pytest.mark.parametrize("fact", ["package", "version", "llama_cpp"])
def test_another_engine_is_refused_by_name_of_the_fact(
    plan: Plan, engine: Engine, fact: str
) -> None:
    with pytest.raises(PowerError) as caught:
        check_engine(plan, replace(engine, **{fact: "other"}))  # type: ignore[arg-type]
    (found,) = caught.value.diagnostics
    assert (found.code, found.found) == ("P442", "other")
    assert found.expected == getattr(plan.engine, fact)
    assert caught.value.exit_code is ExitCode.BROKEN_TRUST


@pytest.mark.parametrize("capabilities", [{}, {"prompt-lookup": "taken out"}])
def test_an_engine_that_lost_the_strategy_is_refused(
    plan: Plan, engine: Engine, capabilities: dict[str, str]
) -> None:
    with pytest.raises(PowerError) as caught:
        check_engine(plan, replace(engine, capabilities=capabilities))
    assert "`prompt-lookup`" in caught.value.diagnostics[0].message


def host_plan(make_inputs: MakeInputs, **host: Any) -> Plan:
    return compile_plan(make_inputs(host=host))


def test_a_host_that_has_everything_is_accepted(make_inputs: MakeInputs) -> None:
    plan = host_plan(make_inputs, require=["cuda"], cpu_affinity=[1, 3])
    check_host(plan, HostFacts(frozenset(range(4)), frozenset({"cuda"})))


def test_everything_that_the_host_lacks_is_told(make_inputs: MakeInputs) -> None:
    plan = host_plan(make_inputs, require=["cuda", "metal"], cpu_affinity=[1, 9])
    with pytest.raises(PowerError) as caught:
        check_host(plan, HostFacts(frozenset({0, 1, 2, 5}), frozenset()))
    cuda, cpus = caught.value.diagnostics
    assert "`cuda`" in cuda.message
    assert cpus.found == "CPUs 0-2, 5; not 9"
    assert caught.value.exit_code is ExitCode.BROKEN_TRUST


def test_this_host_suits_a_plan_without_wishes(make_inputs: MakeInputs) -> None:
    check_host(host_plan(make_inputs), read_host())


def claiming(make_inputs: MakeInputs, level: str, mode: str, **graph: Any) -> Plan:
    return compile_plan(
        make_inputs(speculation={"spec_mode": mode}, exactness={"level": level}, graph=graph)
    )


@pytest.mark.parametrize(
    ("level", "mode", "graph", "control", "needed"),
    [
        ("rule", "prompt-lookup", {}, False, False),
        ("shape", "prompt-lookup", FIXED, False, True),
        ("serial", "prompt-lookup", {}, False, True),
        ("serial", "off", {}, False, False),
        ("serial", "off", FIXED, False, True),
        ("shape", "off", FIXED, False, False),
        ("shape", "prompt-lookup", FIXED, True, False),
        ("serial", "prompt-lookup", FIXED, True, True),
        ("serial", "prompt-lookup", {}, True, False),
    ],
)
def test_a_claim_about_arithmetic_needs_a_certificate(  # noqa: PLR0917 - one column each
    make_inputs: MakeInputs,
    level: str,
    mode: str,
    graph: dict[str, Any],
    control: bool,
    needed: bool,
) -> None:
    plan = claiming(make_inputs, level, mode, **graph)
    assert needs_certificate(plan, control=control) is needed


def test_only_a_certificate_for_this_plan_and_level_will_do(make_inputs: MakeInputs) -> None:
    plan = claiming(make_inputs, "serial", "prompt-lookup")
    digest = plan.lock.plan_sha256
    require_level(plan, Shown(digest, "serial"))
    for wrong in (None, Shown("0" * 64, "serial"), Shown(digest, "shape"), Shown(digest, "rule")):
        with pytest.raises(PowerError) as caught:
            require_level(plan, wrong)
        assert caught.value.diagnostics[0].code == "P446"
        assert caught.value.exit_code is ExitCode.BROKEN_TRUST
    shape = claiming(make_inputs, "shape", "prompt-lookup", **FIXED)
    require_level(shape, Shown(shape.lock.plan_sha256, "serial"))  # shows more than is claimed
    with pytest.raises(PowerError):
        require_level(shape, Shown(digest, "serial"), control=True)  # named, and of another plan
