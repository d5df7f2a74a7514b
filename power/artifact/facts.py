"""What a plan records of a GGUF file's header, and of a target and draft together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """Checked header facts of one artifact (all shards together).

    Digests are SHA-256 in lower-case hex. `vocabulary_sha256` covers every token
    text, token type and merge, the tokenizer model, the pre-tokenizer, special
    ids and the add-bos/add-eos flags, from id 0.
    """

    architecture: str
    file_type: str  # e.g. "Q4_1", "MOSTLY_Q4_K_M" as gguf names it; "unknown" without the key
    layers: int  # block_count
    width: int  # embedding_length
    vocabulary: int  # number of tokens
    context: int  # context_length
    tokenizer_model: str
    pre_tokenizer: str  # "" when the key is absent
    vocabulary_sha256: str
    chat_template_sha256: str | None
    recurrent: bool  # the target keeps state that a KV trim cannot roll back
    nextn_layers: int = 0  # native MTP blocks


@dataclass(frozen=True, slots=True)
class PairFacts:
    """What a draft contract established about a draft for its target."""

    kind: str
    max_width: int | None  # most tokens a proposal can hold; None: no limit of its own
    fr_vocabulary: int | None  # rows of the draft's own reduced head (d2t), None: full
    notes: tuple[str, ...] = ()  # differences that are allowed and reported, e.g. chat template
