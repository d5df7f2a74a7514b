"""Negotiation: what runs is what was asked for, or an error that says why not."""

import pytest

from power.diagnostics import PowerError
from power.plan.capabilities import STRATEGIES, TRAITS, EngineFacts
from power.plan.negotiate import NO_NATIVE_BLOCK, available, negotiate

EXTERNAL = [s for s in STRATEGIES if TRAITS[s].external]


def code_of(caught: pytest.ExceptionInfo[PowerError]) -> str:
    return caught.value.diagnostics[0].code


def test_auto_takes_the_declared_draft_before_the_native_head(engine: EngineFacts) -> None:
    chosen = negotiate("auto", engine=engine, native_lacks=None, draft_kind="dspark")
    assert (chosen.requested, chosen.strategy) == ("auto", "dspark")


def test_auto_takes_the_native_head_without_a_draft(engine: EngineFacts) -> None:
    assert negotiate("auto", engine=engine, native_lacks=None, draft_kind=None).strategy == "mtp"


def test_auto_is_off_and_says_so_when_there_is_nothing(engine: EngineFacts) -> None:
    chosen = negotiate("auto", engine=engine, native_lacks=NO_NATIVE_BLOCK, draft_kind=None)
    assert chosen.strategy == "off"
    assert "no native MTP block" in chosen.reason


def test_auto_is_off_when_the_engine_cannot_run_the_native_head(engine: EngineFacts) -> None:
    weak = replace_capability(engine, "mtp", "it was built without it")
    chosen = negotiate("auto", engine=weak, native_lacks=None, draft_kind=None)
    assert chosen.strategy == "off"
    assert "it was built without it" in chosen.reason


def test_auto_never_drops_a_declared_draft(engine: EngineFacts) -> None:
    """A draft that the engine cannot execute is an error, though MTP could run."""
    with pytest.raises(PowerError) as caught:
        negotiate("auto", engine=engine, native_lacks=None, draft_kind="eagle3")
    assert code_of(caught) == "P401"
    assert "not built in" in caught.value.diagnostics[0].message


@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if s != "off"])
def test_a_strategy_that_the_engine_lacks_is_refused_with_its_reason(
    engine: EngineFacts, strategy: str
) -> None:
    weak = replace_capability(engine, strategy, "this build has no such graph")
    kind = strategy if strategy in EXTERNAL else None
    with pytest.raises(PowerError) as caught:
        negotiate(strategy, engine=weak, native_lacks=None, draft_kind=kind)
    assert code_of(caught) == "P401"
    assert "this build has no such graph" in caught.value.diagnostics[0].message


def test_a_strategy_that_the_engine_has_never_heard_of_is_refused(engine: EngineFacts) -> None:
    capabilities = {k: v for k, v in engine.capabilities.items() if k != "prompt-lookup"}
    old = type(engine)(capabilities=capabilities)  # type: ignore[call-arg]
    with pytest.raises(PowerError) as caught:
        negotiate("prompt-lookup", engine=old, native_lacks=NO_NATIVE_BLOCK, draft_kind=None)
    assert code_of(caught) == "P401"


def test_mtp_needs_a_native_block(engine: EngineFacts) -> None:
    with pytest.raises(PowerError) as caught:
        negotiate("mtp", engine=engine, native_lacks=NO_NATIVE_BLOCK, draft_kind=None)
    assert code_of(caught) == "P402"
    assert "nextn_predict_layers" in caught.value.diagnostics[0].message


@pytest.mark.complaint(n=4)
@pytest.mark.parametrize(("strategy", "kind"), [("dspark", "dflash"), ("dflash", None)])
def test_draft_kinds_do_not_stand_in_for_one_another(
    engine: EngineFacts, strategy: str, kind: str | None
) -> None:
    with pytest.raises(PowerError) as caught:
        negotiate(strategy, engine=engine, native_lacks=NO_NATIVE_BLOCK, draft_kind=kind)
    assert code_of(caught) == "P402"
    assert (kind or "[draft]") in caught.value.diagnostics[0].message


@pytest.mark.parametrize("strategy", ["prompt-lookup", "ngram-context", "mtp"])
def test_a_declared_draft_is_not_left_unused_in_silence(engine: EngineFacts, strategy: str) -> None:
    with pytest.raises(PowerError) as caught:
        negotiate(strategy, engine=engine, native_lacks=None, draft_kind="dspark")
    assert code_of(caught) == "P403"


def test_off_is_always_there(engine: EngineFacts) -> None:
    bare = type(engine)(capabilities={})  # type: ignore[call-arg]
    assert (
        negotiate("off", engine=bare, native_lacks=NO_NATIVE_BLOCK, draft_kind="dspark").strategy
        == "off"
    )
    assert available(bare, native_lacks=None, draft_kind="dspark")["off"] is None


def test_an_unknown_name_is_refused(engine: EngineFacts) -> None:
    with pytest.raises(PowerError) as caught:
        negotiate("medusa", engine=engine, native_lacks=NO_NATIVE_BLOCK, draft_kind=None)
    assert code_of(caught) == "P404"


def test_a_table_for_the_native_head_is_used_by_it(engine: EngineFacts) -> None:
    for mode in ("auto", "mtp"):
        chosen = negotiate(mode, engine=engine, native_lacks=None, draft_kind="mtp")
        assert chosen.strategy == "mtp"
    with pytest.raises(PowerError) as caught:
        negotiate("prompt-lookup", engine=engine, native_lacks=None, draft_kind="mtp")
    assert code_of(caught) == "P403"
    with pytest.raises(PowerError) as caught:
        negotiate("auto", engine=engine, native_lacks=NO_NATIVE_BLOCK, draft_kind="mtp")
    assert code_of(caught) == "P402"


@pytest.mark.parametrize("kind", [None, "mtp", *EXTERNAL])
@pytest.mark.parametrize("native", [None, NO_NATIVE_BLOCK])
def test_available_and_negotiate_agree(
    engine: EngineFacts, kind: str | None, native: str | None
) -> None:
    """What is listed as available can be asked for, but for an unused draft; nothing else can."""
    listed = available(engine, native_lacks=native, draft_kind=kind)
    for strategy, reason in listed.items():
        unused = kind not in {None, strategy} and strategy != "off"
        if reason is None and not unused:
            negotiate(strategy, engine=engine, native_lacks=native, draft_kind=kind)
        else:
            with pytest.raises(PowerError):
                negotiate(strategy, engine=engine, native_lacks=native, draft_kind=kind)


def replace_capability(engine: EngineFacts, strategy: str, reason: str) -> EngineFacts:
    capabilities = {**engine.capabilities, strategy: reason}
    return type(engine)(capabilities=capabilities)  # type: ignore[call-arg]
