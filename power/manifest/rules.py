"""Rules between settings, over the merged values, each finding with both places.

A rule holds for the strategy that the files imply; what only the artifacts can
tell (a native head, the draft's own limits) is the compiler's to check. The
numbers are those of docs: K, S, B, FR.
"""

from __future__ import annotations

from collections.abc import Iterator

from power.diagnostics import Diagnostic
from power.manifest.merge import FR_STRATEGIES, Effective

_EXTERNAL = frozenset({"draft-model", "dflash", "dflash2", "dspark", "eagle3"})
_K = ("speculation", "spec_draft_max", "K")
_B = ("graph", "batch", "B")
_ROWS = ("graph", "rows", "rows")
_S = ("speculation", "spec_mtp_recurrent_snapshots", "S")


def check_rules(effective: Effective) -> tuple[Diagnostic, ...]:
    """Every rule that the merged settings break; empty when they hold."""
    rules = [_shape, _context, _exactness]
    if effective.implied != "off":
        rules += [_strategy, _widths, _controller, _adaptive, _reduced_vocabulary]
    return tuple(finding for rule in rules for finding in rule(effective))


def _finding(  # noqa: PLR0913 - the fields of one diagnostic
    effective: Effective,
    code: str,
    message: str,
    *places: tuple[str, str, str],
    expected: str,
    found: str,
    hint: str,
) -> Diagnostic:
    spans = effective.spans(*places)
    return Diagnostic(
        code=code,
        message=message,
        spans=spans,
        place=None if spans else effective.loaded.source.name,
        expected=expected,
        found=found,
        hint=hint,
    )


def _value(effective: Effective, section: str, key: str, value: object) -> str:
    """`key = value`, with a word on where a value comes from that no line shows."""
    origin = " (default)" if effective.origin(section, key) == "default" else ""
    return f"{key} = {str(value).lower() if isinstance(value, bool) else value}{origin}"


def _strategy(effective: Effective) -> Iterator[Diagnostic]:
    mode, draft = effective.requested, effective.draft
    if mode not in _EXTERNAL:
        return
    if draft is None:
        yield _finding(
            effective,
            "P138",
            f"`{mode}` needs a draft, and the manifest declares none",
            ("speculation", "spec_mode", ""),
            expected=f'a `[draft]` table with `kind = "{mode}"`',
            found="no `[draft]`",
            hint="declare the draft, or choose a strategy that needs none (`prompt-lookup`, `off`)",
        )
    elif draft.kind != mode:
        yield _finding(
            effective,
            "P138",
            f"`{mode}` cannot run a draft of kind `{draft.kind}`",
            ("speculation", "spec_mode", "asked for"),
            ("draft", "kind", "declared"),
            expected=mode,
            found=draft.kind,
            hint=f'write `spec_mode = "auto"` to use the declared draft, or `"{draft.kind}"`',
        )


def _widths(effective: Effective) -> Iterator[Diagnostic]:
    speculation, graph = effective.settings.speculation, effective.settings.graph
    k, least = speculation.spec_draft_max, speculation.spec_draft_min
    if least > k:
        yield _finding(
            effective,
            "P134",
            "`spec_draft_min` is above `spec_draft_max`",
            ("speculation", "spec_draft_min", "the least"),
            ("speculation", "spec_draft_max", "the most (K)"),
            expected=f"spec_draft_min <= {k}",
            found=f"{least}, with {_value(effective, 'speculation', 'spec_draft_max', k)}",
            hint=f"lower `spec_draft_min` to {k} or less, or raise `spec_draft_max`",
        )
    if graph.batch is not None and graph.batch < k + 2:
        yield _finding(
            effective,
            "P130",
            "the verification batch is too small for the proposal",
            _B,
            _K,
            expected=f"batch >= K + 2 = {k + 2} (anchor, {k} proposed tokens, one staging row)",
            found=f"batch = {graph.batch}, "
            + _value(effective, "speculation", "spec_draft_max", k),
            hint=f"set `batch = {k + 2}`"
            + (f", or `spec_draft_max = {graph.batch - 2}`" if graph.batch > 2 else ""),  # noqa: PLR2004 - K + 2
        )
    if effective.rows is not None and effective.rows < k + 1:
        yield _finding(
            effective,
            "P131",
            "the fixed shape has too few rows for the proposal",
            _ROWS,
            _K,
            expected=f"rows >= K + 1 = {k + 1} (the anchor and {k} proposed tokens)",
            found=f"rows = {effective.rows}, "
            + _value(effective, "speculation", "spec_draft_max", k),
            hint=f"set `rows = {k + 1}`"
            + (f", or `spec_draft_max = {effective.rows - 1}`" if effective.rows > 1 else ""),
        )


def _shape(effective: Effective) -> Iterator[Diagnostic]:
    graph = effective.settings.graph
    if graph.shape == "natural" and graph.rows is not None:
        yield _finding(
            effective,
            "P133",
            "`rows` goes with a fixed shape only",
            _ROWS,
            ("graph", "shape", "natural: as many rows as there are tokens"),
            expected="no `rows`",
            found=f"rows = {graph.rows}, {_value(effective, 'graph', 'shape', 'natural')}",
            hint='write `shape = "fixed"`, or leave `rows` out',
        )
    rows = effective.rows
    if rows is not None and rows > effective.batch:
        yield _finding(
            effective,
            "P132",
            "a pass of the fixed shape does not fit the verification batch",
            _ROWS,
            _B,
            expected=f"rows <= batch = {effective.batch}",
            found=_value(effective, "graph", "rows", rows),
            hint=f"set `batch = {rows}` or more, or fewer `rows`",
        )


def _context(effective: Effective) -> Iterator[Diagnostic]:
    context = effective.settings.graph.context
    place = ("graph", "context", "context")
    at = _value(effective, "graph", "context", context)
    if context < effective.batch + 1:
        yield _finding(
            effective,
            "P140",
            "the context has no room for one verification pass",
            place,
            _B,
            expected=f"context >= batch + 1 = {effective.batch + 1}",
            found=f"{at}, {_value(effective, 'graph', 'batch', effective.batch)}",
            hint="raise `context`, or lower `batch`",
        )
    if effective.prefill_batch > context:
        yield _finding(
            effective,
            "P140",
            "a prefill pass is larger than the context",
            ("graph", "prefill_batch", "prefill_batch"),
            place,
            expected=f"prefill_batch <= {context}",
            found=f"{effective.prefill_batch}, {at}",
            hint="lower `prefill_batch`, or leave it out",
        )
    if effective.max_tokens >= context:
        yield _finding(
            effective,
            "P140",
            "the context has no room for the output and one token of prompt",
            ("sampling", "max_tokens", "max_tokens"),
            place,
            expected=f"max_tokens < context = {context}",
            found=f"{effective.max_tokens}, {at}",
            hint="raise `context`, or lower `max_tokens`",
        )


def _controller(effective: Effective) -> Iterator[Diagnostic]:
    speculation = effective.settings.speculation
    asked, written = speculation.controller, speculation.model_fields_set
    if asked is None or "spec_mtp_adaptive" not in written:
        return
    if (asked == "adaptive") != speculation.spec_mtp_adaptive:
        yield _finding(
            effective,
            "P147",
            "`controller` and `spec_mtp_adaptive` name two controllers",
            ("speculation", "controller", "one"),
            ("speculation", "spec_mtp_adaptive", "and another"),
            expected="the same one, or only `controller`",
            found=f"controller = {asked}, "
            + _value(effective, "speculation", "spec_mtp_adaptive", speculation.spec_mtp_adaptive),
            hint="leave `spec_mtp_adaptive` out",
        )


def _adaptive(effective: Effective) -> Iterator[Diagnostic]:
    speculation = effective.settings.speculation
    kind = speculation.width_controller
    if kind == "fixed":
        return
    key = "spec_mtp_adaptive" if speculation.controller is None else "controller"
    place = ("speculation", key, "asked for")
    if effective.implied == "dflash2":
        other = (
            ("speculation", "spec_mode", "this strategy")
            if effective.requested == "dflash2"
            else ("draft", "kind", "this strategy")
        )
        yield _finding(
            effective,
            "P135",
            f"the {kind} controller is not for `dflash2`",
            place,
            other,
            expected="a fixed width",
            found=kind,
            hint=f"leave `{key}` out: no evidence exists yet that it is sound there",
        )
    if kind == "cost":
        return
    needed = max(speculation.spec_draft_min, 1)
    snapshots = speculation.spec_mtp_recurrent_snapshots
    if snapshots < needed:
        yield _finding(
            effective,
            "P136",
            "the adaptive controller would start below `spec_draft_min`",
            _S,
            ("speculation", "spec_draft_min", "the least"),
            expected=f"spec_mtp_recurrent_snapshots >= {needed}",
            found=str(snapshots),
            hint="raise S: the controller starts with min(K, S) proposals",
        )


def _reduced_vocabulary(effective: Effective) -> Iterator[Diagnostic]:
    size = effective.settings.speculation.spec_mtp_fr_vocab_size
    strategy = effective.implied
    if size is None or strategy is None or strategy in FR_STRATEGIES:
        return
    by_draft = effective.requested == "auto"
    yield _finding(
        effective,
        "P137",
        f"`{strategy}` has no draft head whose vocabulary could be reduced",
        ("speculation", "spec_mtp_fr_vocab_size", "FR"),
        ("draft", "kind", "decides the strategy")
        if by_draft
        else ("speculation", "spec_mode", "the strategy"),
        expected="a strategy among " + ", ".join(f"`{s}`" for s in sorted(FR_STRATEGIES)),
        found=strategy,
        hint="leave `spec_mtp_fr_vocab_size` out",
    )


def _exactness(effective: Effective) -> Iterator[Diagnostic]:
    if effective.settings.exactness.level != "shape" or effective.implied == "off":
        return
    if effective.settings.graph.shape == "natural":
        yield _finding(
            effective,
            "P143",
            "a natural shape cannot be exact at level `shape`",
            ("exactness", "level", "every pass of one shape"),
            ("graph", "shape", "as many rows as there are tokens"),
            expected='graph.shape = "fixed"',
            found=_value(effective, "graph", "shape", "natural"),
            hint='write `shape = "fixed"`, or `level = "rule"`',
        )
