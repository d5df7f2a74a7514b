"""The rules that widths, shapes and limits of a plan obey (docs: speculation, formats).

Every rule reads a plan alone, so the compiler and the reader of a lock file hold
the same ones: a lock whose digest was made to fit still cannot ask an engine for
something it would crash on. A finding names its keys; who knows a file puts the
places to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from power.diagnostics import Diagnostic
from power.plan.capabilities import TRAITS
from power.plan.model import Cost, Plan

Key = tuple[str, str]  # (section, key) as a manifest and a plan write them


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule, and the keys whose values break it, the main one first."""

    diagnostic: Diagnostic
    keys: tuple[Key, ...]


K = ("speculation", "spec_draft_max")
MICRO_BATCH = ("graph", "micro_batch")
DRAFT_MIN = ("speculation", "spec_draft_min")
S = ("speculation", "spec_mtp_recurrent_snapshots")
FR = ("speculation", "spec_mtp_fr_vocab_size")
ADAPTIVE = ("speculation", "spec_mtp_adaptive")
CONTROLLER = ("speculation", "controller")
COST = ("speculation", "cost")
BATCH = ("graph", "batch")
SHAPE = ("graph", "shape")
ROWS = ("graph", "rows")
CONTEXT = ("graph", "context")
MAX_TOKENS = ("sampling", "max_tokens")
LEVEL = ("exactness", "level")
DRAFT_KIND = ("draft", "kind")
DRAFT_TARGET = ("draft", "target_sha256")
TARGET = ("target", "sha256")


def findings(plan: Plan) -> tuple[Finding, ...]:
    """Every rule that `plan` breaks, in a fixed order; empty for a sound plan."""
    return tuple(finding for rule in _RULES for finding in rule(plan))


def _draft_width(plan: Plan) -> Iterator[Finding]:
    k, draft = plan.speculation.spec_draft_max, plan.draft
    if k is None or draft is None or draft.contract.max_width is None:
        return
    if k > draft.contract.max_width:
        yield Finding(
            Diagnostic(
                code="P410",
                message=f"`spec_draft_max` is {k}, but the `{draft.kind}` draft "
                f"`{draft.path}` proposes at most {draft.contract.max_width} tokens",
                expected=f"spec_draft_max <= {draft.contract.max_width}",
                found=f"spec_draft_max = {k}",
                hint=f"set `spec_draft_max = {draft.contract.max_width}`; it is never cut silently",
            ),
            (K, DRAFT_KIND),
        )


def _batch_room(plan: Plan) -> Iterator[Finding]:
    k, batch = plan.speculation.spec_draft_max, plan.graph.batch
    if k is not None and batch is not None and batch < k + 2:
        yield Finding(
            Diagnostic(
                code="P411",
                message="`batch` has no room for an anchor, a proposal and a staging row",
                expected=f"batch >= spec_draft_max + 2 = {k + 2}",
                found=f"batch = {batch}",
                hint=f"set `batch = {k + 2}` or more, or lower `spec_draft_max`",
            ),
            (BATCH, K),
        )


def _rows(plan: Plan) -> Iterator[Finding]:
    rows, batch = plan.graph.rows, plan.graph.batch
    if rows is None or batch is None:
        return
    k = plan.speculation.spec_draft_max
    if k is not None and rows < k + 1:
        yield Finding(
            Diagnostic(
                code="P412",
                message="a fixed shape has fewer rows than an anchor and a proposal",
                expected=f"rows >= spec_draft_max + 1 = {k + 1}",
                found=f"rows = {rows}",
                hint=f"set `rows = {k + 1}` or more, or lower `spec_draft_max`",
            ),
            (ROWS, K),
        )
    if rows > batch:
        yield Finding(
            Diagnostic(
                code="P412",
                message="a fixed shape has more rows than `batch` has room for",
                expected=f"rows <= batch = {batch}",
                found=f"rows = {rows}",
                hint=f"set `batch = {rows}` or more, or lower `rows`",
            ),
            (ROWS, BATCH),
        )


def _padding(plan: Plan) -> Iterator[Finding]:
    """Padding rows are dropped like rejected ones, and a recurrent state drops few."""
    if plan.graph.rows is None or plan.speculation.rollback != "snapshots":
        return
    window = plan.speculation.effective_snapshots or 0
    if plan.graph.rows - 1 > window:
        yield Finding(
            Diagnostic(
                code="P413",
                message="a recurrent target cannot drop the padding of this fixed shape: a pass "
                f"may have to drop {plan.graph.rows - 1} rows and it keeps {window} snapshots",
                expected=f"rows <= {window + 1}: the anchor and min(K, S) rows",
                found=f"rows = {plan.graph.rows}",
                hint='set `shape = "natural"`, or `rows` to `spec_draft_max` + 1 with as many '
                "snapshots as `spec_draft_max`",
            ),
            (ROWS, S) if window else (ROWS,),
        )


def _micro_batch(plan: Plan) -> Iterator[Finding]:
    """A pass goes through the kernels whole: pieces of it would be of other shapes.

    The snapshots of a recurrent state are those of the last rows that a kernel saw at once.
    """
    micro, spec = plan.graph.micro_batch, plan.speculation
    if micro is None:
        return
    least = plan.graph.rows or (spec.spec_draft_max or 0) + 1
    what, why = "the rows of a pass", "a pass, and its rows would be computed in other shapes"
    if spec.rollback == "snapshots":
        least = max(least, (spec.effective_snapshots or 0) + 2)
        what += ", and min(K, S) + 2"
        why = "a pass of a recurrent target, and its rows could not be dropped"
    if micro < least:
        yield Finding(
            Diagnostic(
                code="P426",
                message=f"`micro_batch` would cut up {why}",
                expected=f"micro_batch >= {least}: {what}",
                found=f"micro_batch = {micro}",
                hint=f"set `micro_batch = {least}` or more, or lower `spec_draft_max`",
            ),
            (MICRO_BATCH, K),
        )


def _draft_minimum(plan: Plan) -> Iterator[Finding]:
    k, least = plan.speculation.spec_draft_max, plan.speculation.spec_draft_min
    if k is not None and least is not None and least > k:
        yield Finding(
            Diagnostic(
                code="P414",
                message="no round could draft: `spec_draft_min` is above `spec_draft_max`",
                expected=f"spec_draft_min <= spec_draft_max = {k}",
                found=f"spec_draft_min = {least}",
                hint="lower `spec_draft_min`",
            ),
            (DRAFT_MIN, K),
        )


def _reduced_head(plan: Plan) -> Iterator[Finding]:
    spec = plan.speculation
    asked = spec.spec_mtp_fr_vocab_size
    if asked is None:
        return
    rows = None if plan.draft is None else plan.draft.contract.fr_vocabulary
    whole = ((plan.draft and plan.draft.header) or plan.target.header).vocabulary
    if not TRAITS[spec.strategy].reducible:
        yield Finding(
            Diagnostic(
                code="P415",
                message=f"`spec_mtp_fr_vocab_size` is set, but `{spec.strategy}` has no draft "
                "head that could be reduced",
                found=f"spec_mtp_fr_vocab_size = {asked}",
                hint="remove `spec_mtp_fr_vocab_size`",
            ),
            (FR,),
        )
    elif rows is not None and asked != rows:
        yield Finding(
            Diagnostic(
                code="P415",
                message="`spec_mtp_fr_vocab_size` differs from the rows of the draft's own head",
                expected=str(rows),
                found=str(asked),
                hint="remove `spec_mtp_fr_vocab_size`: the draft's `d2t` table decides",
            ),
            (FR, DRAFT_KIND),
        )
    elif asked > whole:
        yield Finding(
            Diagnostic(
                code="P416",
                message="`spec_mtp_fr_vocab_size` is above the draft's vocabulary",
                expected=f"<= {whole}",
                found=str(asked),
                hint="lower it, or remove it for the full vocabulary",
            ),
            (FR,),
        )


def _adaptive(plan: Plan) -> Iterator[Finding]:
    spec = plan.speculation
    if not spec.spec_mtp_adaptive:
        return
    if not TRAITS[spec.strategy].adaptive:
        yield Finding(
            Diagnostic(
                code="P417",
                message=f"`{spec.strategy}` has no adaptive width",
                expected="spec_mtp_adaptive = false",
                found="spec_mtp_adaptive = true",
                hint="remove `spec_mtp_adaptive`; the width stays fixed",
            ),
            (ADAPTIVE,),
        )


def _clamped(plan: Plan) -> Iterator[Finding]:
    """Where the width is clamped to the snapshots: by the guard, and while adaptive."""
    spec = plan.speculation
    if not (spec.spec_mtp_adaptive or spec.rollback == "snapshots"):
        return
    narrow, least = spec.effective_snapshots, spec.spec_draft_min
    if narrow is not None and least is not None and narrow < least:
        when = (
            "the adaptive width starts" if spec.spec_mtp_adaptive else "the guard clamps the width"
        )
        yield Finding(
            Diagnostic(
                code="P418",
                message=f"{when} below `spec_draft_min`, and no round would draft",
                expected=f"spec_draft_min <= min(spec_draft_max, spec_mtp_recurrent_snapshots) "
                f"= {narrow}",
                found=f"spec_draft_min = {least}",
                hint="lower `spec_draft_min` or raise `spec_mtp_recurrent_snapshots`",
            ),
            (DRAFT_MIN, S, ADAPTIVE) if spec.spec_mtp_adaptive else (DRAFT_MIN, S),
        )


def _cost(plan: Plan) -> Iterator[Finding]:
    spec = plan.speculation
    if spec.controller is None:
        return
    if not TRAITS[spec.strategy].weighed:
        yield Finding(
            Diagnostic(
                code="P417",
                message=f"`{spec.strategy}` has one width, so there is nothing to weigh",
                expected="no `controller`",
                found='controller = "cost"',
                hint="remove `controller`; the width stays fixed",
            ),
            (CONTROLLER,),
        )
    if spec.cost is None:
        yield Finding(
            Diagnostic(
                code="P427",
                message="the cost controller has no costs to weigh",
                expected="`[speculation.cost]`",
                hint="measure them with `power tune`, or leave `controller` out",
            ),
            (CONTROLLER,),
        )
    elif not _usable(plan, spec.cost):
        least, window = _least(plan), _window(plan)
        plain, listed = plan.graph.rows or 1, ", ".join(spec.cost.rows)
        yield Finding(
            Diagnostic(
                code="P428",
                message="the costs leave the cost controller no width to choose",
                expected=f"in `rows` the {plain} of a target-only pass"
                + ("" if plan.graph.rows else f" and one of {least + 1} to {window + 1}"),
                found=f"rows: {listed or 'none of these'}; widths: {least} to {window}",
                hint="measure the passes of this shape with `power tune`",
            ),
            (COST, K, DRAFT_MIN, S),
        )


def _least(plan: Plan) -> int:
    return max(1, plan.speculation.spec_draft_min or 0)


def _window(plan: Plan) -> int:
    """The widest proposal that can be dropped without a replay."""
    spec = plan.speculation
    widest = spec.effective_snapshots if spec.rollback == "snapshots" else spec.spec_draft_max
    return widest or 0


def _usable(plan: Plan, cost: Cost) -> bool:
    if _least(plan) > _window(plan):
        return False
    if plan.graph.rows is not None:
        return str(plan.graph.rows) in cost.rows
    wider = range(_least(plan) + 1, _window(plan) + 2)
    return "1" in cost.rows and any(str(rows) in cost.rows for rows in wider)


def _context(plan: Plan) -> Iterator[Finding]:
    context = plan.graph.context
    drafts = None if plan.draft is None else plan.draft.header
    for whose, header in (("target", plan.target.header), ("draft", drafts)):
        if header is not None and context > header.context:
            limit = header.context
            yield Finding(
                Diagnostic(
                    code="P419",
                    message=f"`context` is beyond what the {whose} was made for",
                    expected=f"context <= {limit} (its `context_length`)",
                    found=f"context = {context}",
                    hint=f"set `context = {limit}` or less",
                ),
                (CONTEXT,),
            )
    for key, value, most in (
        (BATCH, plan.graph.batch, context - 1),
        (MAX_TOKENS, plan.sampling.max_tokens, context - 1),
    ):
        if value is not None and value > most:
            yield Finding(
                Diagnostic(
                    code="P420",
                    message=f"`{key[1]}` does not fit into the context",
                    expected=f"{key[1]} <= {most}",
                    found=f"{key[1]} = {value}",
                    hint=f"lower `{key[1]}` or raise `context`",
                ),
                (key, CONTEXT),
            )


def _level(plan: Plan) -> Iterator[Finding]:
    speculates = plan.speculation.strategy != "off"
    if plan.exactness.level == "shape" and speculates and plan.graph.shape == "natural":
        yield Finding(
            Diagnostic(
                code="P421",
                message="no certificate could show `shape` exactness for a natural shape, "
                "whose passes differ in rows",
                expected='shape = "fixed"',
                found='shape = "natural"',
                hint='set `shape = "fixed"` with `rows`, or claim the level `rule`',
            ),
            (SHAPE, LEVEL),
        )


def _binding(plan: Plan) -> Iterator[Finding]:
    if plan.draft is not None and plan.draft.target_sha256 != plan.target.sha256:
        yield Finding(
            Diagnostic(
                code="P422",
                message="the draft was made for another target",
                expected=plan.target.sha256,
                found=plan.draft.target_sha256,
                hint="use the draft that was made for this target, never edit the digest alone",
            ),
            (DRAFT_TARGET, TARGET),
        )


_RULES: tuple[Callable[[Plan], Iterator[Finding]], ...] = (
    _binding,
    _draft_width,
    _draft_minimum,
    _batch_room,
    _rows,
    _padding,
    _micro_batch,
    _reduced_head,
    _adaptive,
    _clamped,
    _cost,
    _context,
    _level,
)
