"""What a change of each key means for a run. One rule for every key of every document."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class Class(enum.Enum):
    """Classes of consequence, the gravest first: that is the order of a diff."""

    ARTIFACT = "artifact"
    OUTPUT = "output"
    ENGINE = "engine"
    NUMERICS = "numerics"
    SPEED = "speed"
    CLAIM = "claim"
    TEXT = "text"

    @property
    def title(self) -> str:
        """A heading for a person."""
        return _TITLES[self]

    @property
    def rank(self) -> int:
        """0 for the gravest."""
        return list(Class).index(self)


_TITLES = {
    Class.ARTIFACT: "Other artifacts",
    Class.OUTPUT: "Other output",
    Class.ENGINE: "Another engine or host",
    Class.NUMERICS: "Other arithmetic: output may differ in near ties",
    Class.SPEED: "Speed only: the same output by rule",
    Class.CLAIM: "Claims and evidence",
    Class.TEXT: "Names and provenance",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Keys by pattern (`*` is any run of characters), and what their change means."""

    pattern: str
    kind: Class
    says: str

    def matches(self, path: str) -> bool:
        """Whether the dotted `path` is one of this rule's keys."""
        regex = re.escape(self.pattern).replace(r"\*", ".*")
        return re.fullmatch(regex, path) is not None


_ROWS_DIFFER = "passes have other row counts, so row logits may differ in their last bits"

# The first match counts.
RULES = (
    Rule("target.source", Class.TEXT, "where the file came from"),
    Rule("target.revision", Class.TEXT, "where the file came from"),
    Rule("target.license", Class.TEXT, "the licence that is stated"),
    Rule("target.path", Class.TEXT, "the file is looked up under another name"),
    Rule("target.shards*path", Class.TEXT, "the file is looked up under another name"),
    Rule("target.header.*", Class.ARTIFACT, "a header fact of other weights"),
    Rule("target*", Class.ARTIFACT, "other weights: output, speed and all evidence are new"),
    Rule("draft.source", Class.TEXT, "where the file came from"),
    Rule("draft.revision", Class.TEXT, "where the file came from"),
    Rule("draft.license", Class.TEXT, "the licence that is stated"),
    Rule("draft.path", Class.TEXT, "the file is looked up under another name"),
    Rule("draft.shards*path", Class.TEXT, "the file is looked up under another name"),
    Rule("draft.header.*", Class.ARTIFACT, "a header fact of another draft"),
    Rule("draft.contract.*", Class.ARTIFACT, "a contract fact of another draft"),
    Rule("draft.kind", Class.ARTIFACT, "another way to propose: the same output by rule"),
    Rule("draft.target_sha256", Class.ARTIFACT, "the draft is bound to another target"),
    Rule("draft*", Class.ARTIFACT, "another draft: the same output by rule, other acceptance"),
    Rule("profile", Class.OUTPUT, "whatever it sets may change: compare the plans"),
    Rule("sampling.temperature", Class.OUTPUT, "tokens are chosen by another distribution"),
    Rule("sampling.seed", Class.OUTPUT, "other random draws, where temperature is above 0"),
    Rule("sampling.max_tokens", Class.OUTPUT, "output ends earlier or later"),
    Rule("sampling.grammar", Class.OUTPUT, "other texts are allowed"),
    Rule("sampling.*", Class.OUTPUT, "tokens are chosen by another distribution"),
    Rule("graph.context", Class.OUTPUT, "long requests are cut at another length"),
    Rule("engine.capabilities", Class.SPEED, "what the plan needs the engine to execute"),
    Rule("engine.*", Class.ENGINE, "other code computes: compare output and speed anew"),
    Rule("host.require", Class.ENGINE, "other hosts refuse to run it"),
    Rule("host.threads", Class.NUMERICS, "work is split otherwise, which may change last bits"),
    Rule("host.*", Class.SPEED, "the same work, scheduled otherwise"),
    Rule("graph.shape", Class.NUMERICS, _ROWS_DIFFER),
    Rule("graph.rows", Class.NUMERICS, _ROWS_DIFFER),
    Rule("graph.prefill_batch", Class.NUMERICS, "the prompt is evaluated in other pieces"),
    Rule("graph.flash_attention", Class.NUMERICS, "another attention kernel"),
    Rule("graph.gpu_layers", Class.NUMERICS, "layers are computed on another device"),
    Rule("graph.main_gpu", Class.NUMERICS, "layers are computed on another device"),
    Rule("graph.backend_sampling", Class.NUMERICS, "the choice is made on another device"),
    Rule("graph.batch", Class.SPEED, "other room for a verification pass"),
    Rule("graph.cuda_graphs", Class.SPEED, "graphs are or are not captured and reused"),
    Rule("speculation.spec_mode", Class.SPEED, "another proposer: the same output by rule"),
    Rule("speculation.requested", Class.TEXT, "the strategy that was asked for"),
    Rule("speculation.reason", Class.TEXT, "why this strategy was chosen"),
    Rule("speculation.strategy", Class.SPEED, "another proposer: the same output by rule"),
    Rule("speculation.spec_draft_max", Class.SPEED, "longer or shorter proposals (K)"),
    Rule("speculation.spec_draft_min", Class.SPEED, "which rounds propose at all"),
    Rule("speculation.spec_draft_p_min", Class.SPEED, "how sure the draft has to be"),
    Rule("speculation.*snapshots", Class.SPEED, "how long a rejection replays (S)"),
    Rule("speculation.rollback", Class.SPEED, "how rejected rows are dropped"),
    Rule("speculation.spec_mtp_fr_vocab_size", Class.SPEED, "what the draft can propose (FR)"),
    Rule("speculation.fr_*", Class.SPEED, "what the draft can propose (FR)"),
    Rule("speculation.spec_mtp_adaptive", Class.SPEED, "who sets the width of each round"),
    Rule("exactness.level", Class.CLAIM, "what the plan claims about its output"),
    Rule("bounds.*", Class.CLAIM, "what receipts report as met or not met"),
    Rule("evidence*", Class.CLAIM, "what the settings are said to rest on"),
    Rule("name", Class.TEXT, "the name in plans and receipts"),
    Rule("summary", Class.TEXT, "words for a person"),
    Rule("schema", Class.TEXT, "the format of the file"),
    Rule("version", Class.TEXT, "the format of the plan"),
    Rule("revision", Class.TEXT, "the format of the plan"),
    Rule("manifest.*", Class.TEXT, "the manifest that it was compiled from"),
    Rule("profile.*", Class.TEXT, "the profile that it was compiled from"),
)

_WIDTHS = ("speculation.spec_draft_max", "speculation.strategy", "speculation.spec_mode")


def consequence(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Class, str]:
    """The class of a change at `path` between two documents, and one line on what it means.

    Width and strategy change only speed where both sides pad every pass to the
    same rows; else row counts change with them. Raises LookupError for a key that
    no rule knows.
    """
    rule = next((rule for rule in RULES if rule.matches(path)), None)
    if rule is None:
        raise LookupError(path)
    if path in _WIDTHS and not _same_fixed_shape(old, new):
        return Class.NUMERICS, f"{rule.says}; {_ROWS_DIFFER}"
    return rule.kind, rule.says


def _same_fixed_shape(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    before, after = old.get("graph", {}), new.get("graph", {})
    return (
        before.get("shape") == after.get("shape") == "fixed"
        and before.get("rows") is not None
        and before.get("rows") == after.get("rows")
    )
