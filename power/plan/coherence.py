"""Whether the keys of a plan are those that the compiler writes for its strategy and shape."""

from __future__ import annotations

from power.diagnostics import Diagnostic
from power.plan import rules
from power.plan.capabilities import TRAITS, prefix_sha256
from power.plan.model import Plan


def incoherent(plan: Plan) -> tuple[rules.Finding, ...]:
    """Keys that a plan with this strategy and shape has and should not, or lacks.

    The compiler leaves out what the strategy does not use; only a lock file
    that something else wrote can break this (P424).
    """
    spec, graph = plan.speculation, plan.graph
    traits, speculates = TRAITS[spec.strategy], spec.strategy != "off"
    fixed = graph.shape == "fixed"
    reduced = spec.fr_rule in {"prefix", "d2t"}
    wanted = {
        rules.K: (spec.spec_draft_max, speculates),
        rules.DRAFT_MIN: (spec.spec_draft_min, speculates),
        rules.S: (spec.spec_mtp_recurrent_snapshots, speculates),
        ("speculation", "effective_snapshots"): (spec.effective_snapshots, speculates),
        ("speculation", "rollback"): (spec.rollback, speculates or fixed),
        ("speculation", "spec_draft_p_min"): (spec.spec_draft_p_min, traits.model),
        rules.ADAPTIVE: (spec.spec_mtp_adaptive, traits.model and spec.controller is None),
        rules.CONTROLLER: (spec.controller, speculates and spec.controller is not None),
        rules.COST: (spec.cost, spec.controller is not None),
        ("speculation", "fr_rule"): (spec.fr_rule, traits.model),
        rules.FR: (spec.spec_mtp_fr_vocab_size, reduced),
        rules.BATCH: (graph.batch, speculates or fixed),
        rules.ROWS: (graph.rows, fixed),
        # A table of its own reduces a native head; an external draft is a model.
        ("draft", "path"): (plan.draft, traits.external or spec.fr_rule == "d2t"),
        ("draft", "header"): (plan.draft and plan.draft.header, traits.external),
    }
    wrong = [key for key, (value, present) in wanted.items() if (value is not None) != present]
    if plan.name != plan.manifest.name:
        wrong.append(("manifest", "name"))
    if plan.draft is not None and plan.draft.kind != spec.strategy:
        wrong.append(rules.DRAFT_KIND)
    k, s = spec.spec_draft_max, spec.spec_mtp_recurrent_snapshots
    if k is not None and s is not None and spec.effective_snapshots != min(k, s):
        wrong.append(("speculation", "effective_snapshots"))
    own = plan.draft is not None and plan.draft.contract.fr_vocabulary is not None
    if (spec.fr_rule == "d2t") != (own and traits.reducible) or (reduced and not traits.reducible):
        wrong.append(("speculation", "fr_rule"))
    rows = spec.spec_mtp_fr_vocab_size
    if spec.fr_rule == "prefix" and rows is not None and spec.fr_sha256 != prefix_sha256(rows):
        wrong.append(("speculation", "fr_sha256"))
    if plan.engine.capabilities != ([spec.strategy] if speculates else []):
        wrong.append(("engine", "capabilities"))
    return tuple(
        rules.Finding(
            Diagnostic(
                code="P424",
                message=f"`{'.'.join(key)}` does not belong to a `{spec.strategy}` plan "
                "as it is, or is missing from it",
                hint="run `power compile` again; a plan is not edited by hand",
            ),
            (key,),
        )
        for key in wrong
    )
