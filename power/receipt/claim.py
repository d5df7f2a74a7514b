"""The claim: what must come out the same when the same request runs again.

Of the many facts of a run, these alone have to repeat: the target, the tokens
it was given, how it was asked to sample, and what came out. Not in the claim:
everything about speed and the road taken (draft, strategy, widths, counters,
engine, host, timing), so that a control run of an exact plan, or a run on
another machine, can be seen to agree.
"""

from __future__ import annotations

from power.receipt.digests import CLAIM_DOMAIN, SAMPLING_DOMAIN, document_sha256
from power.receipt.predicate import (
    IDS_SUBJECT,
    TEXT_SUBJECT,
    Artifact,
    RequestPart,
    Sampling,
    Statement,
)


def sampling_sha256(
    sampling: Sampling, *, seed: int, max_tokens: int, stop_sha256: str | None
) -> str:
    """Digest of everything that decides which tokens the sampler takes and where it ends."""
    document = sampling.model_dump(mode="json", exclude_none=True)
    document |= {"seed": seed, "max_tokens": max_tokens}
    if stop_sha256 is not None:
        document["stop_sha256"] = stop_sha256
    return document_sha256(SAMPLING_DOMAIN, document)


def sampling_of(request: RequestPart) -> str:
    """`sampling_sha256` recomputed from a request's own fields."""
    return sampling_sha256(
        request.sampling,
        seed=request.seed,
        max_tokens=request.max_tokens,
        stop_sha256=request.stop_sha256,
    )


def claim_sha256(
    *,
    target: list[str],
    prompt_token_ids_sha256: str,
    sampling_sha256: str,
    output_token_ids_sha256: str,
    output_text_sha256: str,
) -> str:
    """The digest of a claim; `target` is the SHA-256 of each target file, in order."""
    return document_sha256(
        CLAIM_DOMAIN,
        {
            "target": target,
            "prompt_token_ids_sha256": prompt_token_ids_sha256,
            "sampling_sha256": sampling_sha256,
            "output_token_ids_sha256": output_token_ids_sha256,
            "output_text_sha256": output_text_sha256,
        },
    )


def target_digests(artifacts: list[Artifact]) -> list[str]:
    """The SHA-256 of each target file, in order."""
    return [a.digest.sha256 for a in artifacts if a.annotations.role == "target"]


def claim_of(statement: Statement) -> str:
    """`claim_sha256` recomputed from a statement's own fields."""
    predicate = statement.predicate
    return claim_sha256(
        target=target_digests(predicate.artifacts),
        prompt_token_ids_sha256=predicate.request.prompt_token_ids_sha256,
        sampling_sha256=sampling_of(predicate.request),
        output_token_ids_sha256=statement.digest(IDS_SUBJECT),
        output_text_sha256=statement.digest(TEXT_SUBJECT),
    )
