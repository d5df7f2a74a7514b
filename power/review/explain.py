"""What a change means where both sides decide: K past S, rows, dead settings, claims.

The rules are those of docs/explanation/speculation.md: a guarded replay where K is
larger than S, one shape where every pass has the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from power.plan.exactness import LEVELS
from power.review.consequences import NOTHING, Class, Consequence, Evidence, means, rule_for
from power.review.holding import Holding


@dataclass(frozen=True, slots=True)
class Step:
    """One changed key between two documents; None stands for a value that is not applied."""

    path: str
    old: Any
    new: Any
    before: Holding
    after: Holding


def consequence(step: Step) -> Consequence:
    """The class of a change, one line on what it means, and what it makes void.

    Raises LookupError for a key that no rule knows.
    """
    rule = rule_for(step.path)
    if step.path in _DEAD_WHEN_OFF and _both_off(step):
        return means(Class.WORDS, "no effect: nothing proposes, before or after")
    # Of keys and evidence, the name is the file's own.
    table = re.split(r"[.\[]", step.path, maxsplit=1)[0]
    explain = _EXPLAINED.get(step.path) or _EXPLAINED.get(f"{table}*")
    found = None if explain is None else explain(step)
    return found or rule.consequence


def _both_off(step: Step) -> bool:
    return step.before.strategy == "off" and step.after.strategy == "off"


_DEAD_WHEN_OFF = {
    "speculation.spec_draft_max",
    "speculation.spec_draft_min",
    "speculation.spec_draft_p_min",
    "speculation.spec_mtp_recurrent_snapshots",
    "speculation.spec_mtp_fr_vocab_size",
    "speculation.spec_mtp_adaptive",
    "speculation.controller",
}


def _rows(step: Step) -> str | None:
    """That the passes have other rows, None where they have the same ones."""
    old, new = step.before.pass_rows, step.after.pass_rows
    return None if old == new else f"a pass has {new} rows, before {old}"


def _guard(step: Step) -> str | None:
    """That the guarded replay opens or closes, None where neither."""
    before, after = step.before.may_replay, step.after.may_replay
    if before == after:
        return None
    if before:
        return "K is no longer past S: no rejection replays"
    where = "" if step.after.trims is False else ", on a recurrent target,"
    k, s = step.after.k, step.after.s
    return (
        f"K = {k} is past S = {s}: a rejection of more than {s} rows{where} opens the guarded "
        f"replay, once a request, and the width falls to {s}"
    )


def _joined(step: Step, first: str) -> Consequence:
    """`first`, and behind it what it does to rows and guard, which make it a change of shape."""
    more = [text for text in (_rows(step), _guard(step)) if text is not None]
    kind = Class.SHAPE if more else Class.SPEED
    return means(kind, "; ".join([first, *more]))


def _k(step: Step) -> Consequence:
    if step.after.k is None or step.before.k is None:
        return _joined(step, "K: it goes with a proposer")
    return _joined(step, f"K: proposals of up to {step.new} tokens, before {step.old}")


def _s(step: Step) -> Consequence:
    if step.before.trims and step.after.trims:
        return means(
            Class.WORDS, "no effect: the target is a pure KV cache, which drops any suffix"
        )
    k, s = step.after.k, step.after.s
    if k is None or s is None:
        return _joined(step, "S: it goes with a proposer")
    if s > k:
        return _joined(step, f"S: only {k} of {s} snapshots are used, as a proposal has {k} tokens")
    return _joined(step, f"S: {s} rejected rows are dropped without replay; each costs a state")


def _strategy(step: Step) -> Consequence:
    if step.new == "off":
        return _joined(step, "nothing proposes: one token a pass")
    instead = "" if step.old == "off" else f" instead of `{step.old}`"
    return _joined(step, f"`{step.new}` proposes{instead}")


def _adaptive(step: Step) -> Consequence:
    if step.new is not True:
        return _joined(step, "the width is fixed at K")
    start = min(step.after.k or 0, step.after.s or 0)
    return _joined(
        step, f"the width starts at min(K, S) = {start}, widens after full acceptance, and may stop"
    )


def _controller(step: Step) -> Consequence:
    said = {
        "cost": "the width is what pays, by the costs and by what the request accepts",
        "adaptive": "the width starts at min(K, S), widens after full acceptance, and may stop",
    }
    return _joined(step, said.get(step.new, "the width is fixed at K"))


def _shape(step: Step) -> Consequence:
    if step.new == "fixed":
        return means(Class.SHAPE, f"every pass is padded to {step.after.pass_rows} rows")
    return means(Class.SHAPE, f"passes of {step.after.pass_rows} rows, as many as there are tokens")


def _row_count(step: Step) -> Consequence | None:
    if step.new is None or step.old is None:
        return None  # `graph.shape` says it
    return means(Class.SHAPE, f"every pass has {step.new} rows, before {step.old}")


def _batch(step: Step) -> Consequence:
    k = step.after.k
    room = "" if k is None else f"; K + 2 = {k + 2} are needed"
    return means(Class.SHAPE, f"B: the graph has room for {step.new} rows{room}")


def _seed(step: Step) -> Consequence | None:
    if any(side.get("sampling.temperature") for side in (step.before, step.after)):
        return None
    return means(
        Class.OUTPUT,
        "no draws at temperature 0: the text stays, and the claim names the seed",
        (Evidence.RECEIPTS,),
    )


def _level(step: Step) -> Consequence | None:
    if step.old not in LEVELS or step.new not in LEVELS:
        return None
    if step.new == "rule":
        return means(Class.OUTPUT, "claims less: no certificate is asked for", NOTHING)
    more = LEVELS.index(step.new) > LEVELS.index(step.old)
    return means(
        Class.OUTPUT,
        f"claims {'more' if more else 'less'}: with a proposer it runs only with a certificate of "
        f"level `{step.new}`",
        NOTHING,
    )


def _profile(step: Step) -> Consequence | None:
    if step.before.complete and step.after.complete:
        return means(Class.WORDS, "the settings that it changes are listed by themselves")
    return None


def _bound(step: Step) -> Consequence | None:
    if step.old is None or step.new is None:
        return None
    easier = "easier" if step.new < step.old else "harder"
    return means(Class.TRUST, f"{easier} to meet: receipts report it as met or not met")


def _key(step: Step) -> Consequence | None:
    if step.path.endswith(".keyid"):
        if step.old is None:
            return means(Class.TRUST, "receipts signed with this key are believed from now on")
        if step.new is None:
            return means(Class.TRUST, "receipts signed with this key are no longer believed")
        return means(Class.TRUST, "another key under this name: the old one is no longer believed")
    if step.path.endswith(".revoked"):
        if step.new is None:
            return means(Class.TRUST, "the revocation is taken back: its receipts are believed")
        return means(Class.TRUST, "every receipt of this key is refused, of any date")
    return means(Class.TRUST, "runs of another period are believed")


def _evidence(step: Step) -> Consequence | None:
    entry = step.new if isinstance(step.new, Mapping) else step.old
    if not isinstance(entry, Mapping):
        return None
    what = "measured here" if entry.get("by") == "measured" else "reported by somebody else"
    if step.old is None:
        return means(Class.TRUST, f"new evidence, {what}")
    return means(Class.TRUST, f"evidence that was {what} is gone") if step.new is None else None


_EXPLAINED: Mapping[str, Callable[[Step], Consequence | None]] = {
    "speculation.spec_draft_max": _k,
    "speculation.spec_mtp_recurrent_snapshots": _s,
    "speculation.spec_mode": _strategy,
    "speculation.strategy": _strategy,
    "speculation.spec_mtp_adaptive": _adaptive,
    "speculation.controller": _controller,
    "graph.shape": _shape,
    "graph.rows": _row_count,
    "graph.batch": _batch,
    "sampling.seed": _seed,
    "exactness.level": _level,
    "profile": _profile,
    "bounds.min_acceptance": _bound,
    "key*": _key,
    "evidence*": _evidence,
}
