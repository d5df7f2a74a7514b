"""What a change of each key means for a run. One rule for every key of every document."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class Class(enum.Enum):
    """Classes of consequence, the gravest first: that is the order of a diff."""

    IDENTITY = "identity"
    OUTPUT = "output"
    SHAPE = "shape"
    SPEED = "speed"
    TRUST = "trust"
    WORDS = "words"

    @property
    def title(self) -> str:
        """A heading for a person: the class, a colon, and what it means."""
        return f"{self.value.capitalize()}: {_MEANINGS[self]}"

    @property
    def rank(self) -> int:
        """0 for the gravest."""
        return list(Class).index(self)


_MEANINGS = {
    Class.IDENTITY: "other artifacts, or another engine",
    Class.OUTPUT: "what is sampled, how far, and what is claimed of it",
    Class.SHAPE: "other passes; output may differ where two tokens nearly tie",
    Class.SPEED: "the same output by rule",
    Class.TRUST: "provenance, evidence, bounds, hosts and keys",
    Class.WORDS: "nothing that runs",
}


class Evidence(enum.Enum):
    """What a change can make void. The value is its name in JSON."""

    RECEIPTS = "receipts"
    CERTIFICATE = "certificate"
    MEASUREMENTS = "measurements"

    @property
    def title(self) -> str:
        """For a person."""
        return _EVIDENCE[self]


_EVIDENCE = {
    Evidence.RECEIPTS: "claims of earlier receipts: a new run need not repeat them",
    Evidence.CERTIFICATE: (
        "the exactness certificate, which names a plan by digest: certify the new one"
    ),
    Evidence.MEASUREMENTS: "measured speed and acceptance: measure the new plan",
}
NOTHING: tuple[Evidence, ...] = ()
ALL = tuple(Evidence)
_VOID = {
    Class.IDENTITY: ALL,
    Class.OUTPUT: (Evidence.RECEIPTS, Evidence.MEASUREMENTS),
    Class.SHAPE: ALL,
    Class.SPEED: (Evidence.MEASUREMENTS,),
    Class.TRUST: NOTHING,
    Class.WORDS: NOTHING,
}


@dataclass(frozen=True, slots=True)
class Consequence:
    """What one change means: its class, one line, and the evidence that it makes void."""

    kind: Class
    says: str
    voids: tuple[Evidence, ...]


def means(kind: Class, says: str, voids: tuple[Evidence, ...] | None = None) -> Consequence:
    """A consequence; `voids` is by default what its class makes void."""
    return Consequence(kind, says, _VOID[kind] if voids is None else voids)


@dataclass(frozen=True, slots=True)
class Rule:
    """Keys by pattern (`*` is any run of characters), and what their change means."""

    pattern: str
    kind: Class
    says: str
    voids: tuple[Evidence, ...] | None = None

    def matches(self, path: str) -> bool:
        """Whether the dotted `path` is one of this rule's keys."""
        regex = re.escape(self.pattern).replace(r"\*", ".*")
        return re.fullmatch(regex, path) is not None

    @property
    def consequence(self) -> Consequence:
        """What it means where nothing closer is known."""
        return means(self.kind, self.says, self.voids)


_I, _O, _SH, _SP, _T, _W = Class
_DRAFT = (Evidence.CERTIFICATE, Evidence.MEASUREMENTS)
_KERNEL = "other kernels compute the rows"

# The first match counts. `explain.py` says more where values decide.
RULES = (
    Rule("target.source", _T, "where the target is said to come from"),
    Rule("target.revision", _T, "where the target is said to come from"),
    Rule("target.license", _T, "the licence that is stated"),
    Rule("target.path", _W, "the file is looked up under another name"),
    Rule("target.shards*path", _W, "the file is looked up under another name"),
    Rule("target.header.chat_template*", _I, "chats are written out by another template"),
    Rule("target.header.*", _I, "a header fact of other weights"),
    Rule("target*", _I, "other weights: output, speed and all evidence are new"),
    Rule("draft.source", _T, "where the draft is said to come from"),
    Rule("draft.revision", _T, "where the draft is said to come from"),
    Rule("draft.license", _T, "the licence that is stated"),
    Rule("draft.path", _W, "the file is looked up under another name"),
    Rule("draft.shards*path", _W, "the file is looked up under another name"),
    Rule("draft.header.*", _I, "a header fact of another draft", _DRAFT),
    Rule("draft.contract.*", _I, "a contract fact of another draft", _DRAFT),
    Rule("draft.kind", _I, "the draft is held to another contract", _DRAFT),
    Rule("draft.target_sha256", _I, "the draft is bound to another target", _DRAFT),
    Rule("draft*", _I, "another draft: the same output by rule, other acceptance", _DRAFT),
    Rule("profile", _O, "whatever it sets may change: compare the plans"),
    Rule("sampling.temperature", _O, "tokens are chosen by another distribution"),
    Rule("sampling.seed", _O, "other random draws"),
    Rule("sampling.max_tokens", _O, "output ends earlier or later"),
    Rule("sampling.grammar", _O, "other texts are allowed"),
    Rule("sampling.*", _O, "tokens are chosen by another distribution"),
    Rule("graph.context", _O, "long requests are cut at another length"),
    Rule("engine.capabilities", _SP, "what the plan needs the engine to execute", NOTHING),
    Rule("engine.*", _I, "other code computes: certify and measure anew"),
    Rule("host.require", _T, "other hosts refuse to run it"),
    Rule("host.threads", _SP, "work is split otherwise, which may change last bits", _DRAFT),
    Rule("host.*", _SP, "the same work, scheduled otherwise"),
    Rule("graph.shape", _SH, "passes have other row counts"),
    Rule("graph.rows", _SH, "every pass has another row count"),
    Rule("graph.batch", _SH, "B: the graph has room for another number of rows"),
    Rule("graph.prefill_batch", _SH, "the prompt is evaluated in other pieces"),
    Rule("graph.micro_batch", _SH, "kernels see other numbers of rows at once"),
    Rule("graph.flash_attention", _SH, _KERNEL),
    Rule("graph.repack", _SH, "other kernels, for other layouts of the weights"),
    Rule("graph.gpu_layers", _SH, "layers are computed on another device"),
    Rule("graph.main_gpu", _SH, "layers are computed on another device"),
    Rule("graph.backend_sampling", _SH, "the choice is made on another device"),
    Rule("graph.cuda_graphs", _SP, "graphs are or are not captured and reused"),
    Rule("speculation.spec_mode", _SP, "another proposer"),
    Rule("speculation.requested", _W, "the strategy that was asked for"),
    Rule("speculation.reason", _W, "why this strategy was chosen"),
    Rule("speculation.strategy", _SP, "another proposer"),
    Rule("speculation.spec_draft_max", _SP, "K: longer or shorter proposals"),
    Rule("speculation.spec_draft_min", _SP, "which rounds propose at all"),
    Rule("speculation.spec_draft_p_min", _SP, "how sure the draft has to be"),
    Rule("speculation.spec_mtp_recurrent_snapshots", _SP, "S: how long a rejection replays"),
    Rule("speculation.effective_snapshots", _SP, "min(S, K): rows that are dropped without replay"),
    Rule("speculation.rollback", _SP, "how rejected rows are dropped"),
    Rule("speculation.spec_mtp_fr_vocab_size", _SP, "FR: what the draft can propose"),
    Rule("speculation.fr_*", _SP, "FR: what the draft can propose"),
    Rule("speculation.spec_mtp_adaptive", _SP, "who sets the width of each round"),
    Rule("speculation.controller", _SP, "who sets the width of each round"),
    Rule("speculation.cost.*", _SP, "what the cost controller weighs"),
    Rule("exactness.level", _O, "what the plan claims about its output", NOTHING),
    Rule("bounds.*", _T, "what receipts report as met or not met"),
    Rule("preflight.*", _T, "how quiet a host must be to be measured on"),
    Rule("evidence*", _T, "what the settings are said to rest on"),
    Rule("key*", _T, "whose receipts are believed"),
    Rule("name", _W, "the name in plans and receipts"),
    Rule("summary", _W, "words for a person"),
    Rule("schema", _W, "the format of the file"),
    Rule("version", _W, "the format of the plan"),
    Rule("revision", _W, "the format of the plan"),
    Rule("manifest.*", _W, "the manifest that it was compiled from"),
    Rule("profile.*", _W, "the profile that it was compiled from"),
)


def rule_for(path: str) -> Rule:
    """The rule for the key at `path`. Raises LookupError for a key that no rule knows."""
    rule = next((rule for rule in RULES if rule.matches(path)), None)
    if rule is None:
        raise LookupError(path)
    return rule
