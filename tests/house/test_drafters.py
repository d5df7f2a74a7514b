"""The scheduler knows no model, the adapter no policy: a drafter is a file of its own."""

import pytest

from power.backends.llamacpp.capabilities import NEEDS
from power.backends.llamacpp.drafters import DRAFTERS
from power.plan.capabilities import STRATEGIES, TRAITS
from tests.house.sources import ROOT

MODELLED = [strategy for strategy in STRATEGIES if TRAITS[strategy].model]
POLICIES = ("controller", "guard", "scheduler", "transaction", "tally")


def test_the_scheduler_names_no_strategy() -> None:
    names = {name for strategy in STRATEGIES for name in (strategy, strategy.replace("-", "_"))}
    named = [
        f"{path.relative_to(ROOT)}:{number}: {name}"
        for path in sorted((ROOT / "power" / "speculation").rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").lower().splitlines(), 1)
        for name in names - {"off"}
        if name in line
    ]
    assert named == []


def test_the_adapter_imports_no_policy() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {policy}"
        for path in sorted((ROOT / "power" / "backends" / "llamacpp").rglob("*.py"))
        for policy in POLICIES
        if f"power.speculation.{policy}" in path.read_text("utf-8")
    ]
    assert found == []


@pytest.mark.parametrize("strategy", MODELLED)
def test_a_drafter_is_one_adapter_and_one_contract(strategy: str) -> None:
    module = f"{strategy.replace('-', '_')}.py"
    assert (ROOT / "power" / "backends" / "llamacpp" / module).is_file()
    assert (ROOT / "power" / "artifact" / "contracts" / module).is_file()


def test_every_strategy_is_a_row_of_each_table() -> None:
    assert set(DRAFTERS) == set(NEEDS) == set(TRAITS) == set(STRATEGIES)
    external = {strategy for strategy, traits in TRAITS.items() if traits.external}
    assert {name for name, drafter in DRAFTERS.items() if drafter.external} == external
