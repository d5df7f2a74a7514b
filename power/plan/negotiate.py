"""Which strategy a plan gets: a function of what is asked, the engine and the artifacts.

Nothing is ever replaced by something else. A strategy asked for by name that
cannot run is an error that says why; `auto` chooses, and records why; a draft
that the manifest declares is a wish too, which `auto` may not drop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from power.diagnostics import Span, fail
from power.plan.capabilities import STRATEGIES, TRAITS, EngineFacts
from power.plan.model import Strategy


@dataclass(frozen=True, slots=True)
class Resolution:
    """The strategy that will run, and why it is this one."""

    requested: str
    strategy: Strategy
    reason: str


@dataclass(frozen=True, slots=True)
class Places:
    """Where the manifest states what is negotiated; empty when it is a default."""

    mode: tuple[Span, ...] = ()
    draft: tuple[Span, ...] = ()


NO_NATIVE_BLOCK = "the target has no native MTP block (`nextn_predict_layers` is absent or 0)"


def available(
    engine: EngineFacts, *, native_lacks: str | None, draft_kind: str | None
) -> Mapping[Strategy, str | None]:
    """Strategy -> None when this engine can run it with these artifacts, else why not.

    native_lacks: None when the target has a native MTP block that fulfils its
        contract, else why not, such as `NO_NATIVE_BLOCK`.
    draft_kind: kind of the external draft, None without one.
    """
    return {
        s: _engine_lacks(engine, s) or _artifacts_lack(s, native_lacks, draft_kind)
        for s in STRATEGIES
    }


def _engine_lacks(engine: EngineFacts, strategy: Strategy) -> str | None:
    if strategy == "off":
        return None
    if strategy not in engine.capabilities:
        return f"{engine.package} {engine.version} does not know it"
    reason = engine.capabilities[strategy]
    return None if reason is None else f"{engine.package} {engine.version}: {reason}"


def _artifacts_lack(
    strategy: Strategy, native_lacks: str | None, draft_kind: str | None
) -> str | None:
    if strategy == "mtp":
        return native_lacks
    if not TRAITS[strategy].external or draft_kind == strategy:
        return None
    if draft_kind is None:
        return "the manifest declares no `[draft]`"
    return f"the declared draft is of kind `{draft_kind}`"


def negotiate(
    requested: str,
    *,
    engine: EngineFacts,
    native_lacks: str | None,
    draft_kind: str | None,
    places: Places | None = None,
) -> Resolution:
    """The strategy for `requested`, a strategy's name or `auto`; the rest as in `available`.

    With `off` a declared draft stays out of the plan. With another strategy that
    does not use the declared draft the plan is refused: one proposer at a time,
    and a draft that is hashed but never asked would look like one that ran.

    Raises PowerError: P401 the engine cannot, P402 the artifacts do not allow it,
    P403 the declared draft would not be used, P404 no such strategy.
    """
    where = places or Places()
    if requested == "auto":
        return _choose(engine, native_lacks, draft_kind, where)
    strategy = next((s for s in STRATEGIES if s == requested), None)
    if strategy is None:
        fail(
            "P404",
            f"there is no strategy `{requested}`",
            spans=where.mode,
            expected=", ".join(("auto", *STRATEGIES)),
            found=requested,
            hint="choose one of these",
        )
    _require(strategy, engine, native_lacks, draft_kind, where)
    return Resolution(requested, strategy, "asked for by name")


def _require(
    strategy: Strategy,
    engine: EngineFacts,
    native_lacks: str | None,
    draft_kind: str | None,
    where: Places,
) -> None:
    lacks = _engine_lacks(engine, strategy)
    if lacks is not None:
        fail(
            "P401",
            f"the engine cannot execute `{strategy}`: {lacks}",
            spans=where.mode or where.draft,
            hint="`power doctor` lists what this engine executes",
        )
    lacks = _artifacts_lack(strategy, native_lacks, draft_kind)
    if lacks is not None:
        fail(
            "P402",
            f"`{strategy}` cannot run with these artifacts: {lacks}",
            spans=where.mode + where.draft,
            hint="`power inspect` shows which draft contracts a file fulfils",
        )
    if draft_kind not in {None, strategy} and strategy != "off":
        fail(
            "P403",
            f"the manifest declares a `{draft_kind}` draft, which `{strategy}` would not use",
            spans=where.mode + where.draft,
            expected=f"spec_mode `auto`, `{draft_kind}` or `off`",
            found=f"spec_mode `{strategy}`",
            hint="remove `[draft]`, or ask for its own strategy",
        )


def _choose(
    engine: EngineFacts, native_lacks: str | None, draft_kind: str | None, where: Places
) -> Resolution:
    declared = next((s for s in STRATEGIES if s == draft_kind), None)
    if declared is not None:
        _require(declared, engine, native_lacks, draft_kind, where)
        what = (
            "a verified external draft"
            if TRAITS[declared].external
            else "a verified table for the target's native MTP block"
        )
        return Resolution("auto", declared, f"the manifest declares {what}")
    absent = "the manifest declares no draft"
    if native_lacks is not None:
        return Resolution("auto", "off", f"{absent} and {native_lacks}")
    lacks = _engine_lacks(engine, "mtp")
    if lacks is not None:
        reason = f"{absent} and the engine cannot execute the target's native MTP block: {lacks}"
        return Resolution("auto", "off", reason)
    return Resolution("auto", "mtp", f"{absent} and the target has a native MTP block")
