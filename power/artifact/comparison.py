"""Whether two vocabularies mean the same by every token id, from id 0.

llama.cpp compares from id 5 on and tolerates 128 tokens more or less; then a
draft's ids mean other text than the target's, and speculation silently proposes
nonsense or stays off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from power.artifact.findings import Findings
from power.artifact.values import Numbers, Strings
from power.artifact.vocabulary import (
    MERGES,
    MODEL,
    PRE,
    SCORES,
    SPECIAL_NAMES,
    TYPES,
    Vocabulary,
)

_HINT = "use a draft that was made for this target, with its tokenizer unchanged"
_SHOWN = 40
_SHOWN_IDS = 8


def compare(
    findings: Findings, draft: Vocabulary, target: Vocabulary, ignore: Collection[str] = ()
) -> tuple[str, ...]:
    """Find every difference that matters (P320, P321); return those that do not, as notes.

    `ignore` names special tokens that belong to the draft alone, such as `mask`.
    """
    _texts(findings, draft, target)
    _types(findings, draft, target)
    _merges(findings, draft, target)
    _settings(findings, draft, target, ignore)
    if _region(draft.scores) != _region(target.scores):
        return (f"`{SCORES}` differ; they steer tokenising, which only the target does",)
    return ()


def _texts(findings: Findings, draft: Vocabulary, target: Vocabulary) -> None:
    if len(draft) != len(target):
        _differ(
            findings,
            "P320",
            f"the draft has {len(draft)} tokens, the target {len(target)}",
            draft,
            expected=f"{len(target)} tokens",
            found=f"{len(draft)} tokens",
        )
    index = _first_difference(draft.tokens, target.tokens)
    if index is not None:
        _differ(
            findings,
            "P320",
            f"token {index} has another text in the draft than in the target",
            draft,
            expected=f"`{target.tokens.text(index)[:_SHOWN]}`",
            found=f"`{draft.tokens.text(index)[:_SHOWN]}`",
        )


def _types(findings: Findings, draft: Vocabulary, target: Vocabulary) -> None:
    if _region(draft.types) == _region(target.types) or len(draft) != len(target):
        return
    if draft.types is None or target.types is None:
        _differ(
            findings,
            "P320",
            f"only one of draft and target has `{TYPES}`",
            draft,
            expected=_presence(target.types),
            found=_presence(draft.types),
        )
        return
    ours, theirs = draft.types.items(), target.types.items()
    index = _first_index(ours, theirs)
    _differ(
        findings,
        "P320",
        f"token {index} has another type in the draft than in the target (`{TYPES}`)",
        draft,
        expected=theirs[index],
        found=ours[index],
    )


def _merges(findings: Findings, draft: Vocabulary, target: Vocabulary) -> None:
    if _region(draft.merges) == _region(target.merges):
        return
    ours, theirs = draft.merges, target.merges
    if ours is None or theirs is None or len(ours) != len(theirs):
        _differ(
            findings,
            "P320",
            f"`{MERGES}` of draft and target differ in number",
            draft,
            expected=f"{len(theirs or ())} merges",
            found=f"{len(ours or ())} merges",
        )
        return
    index = _first_difference(ours, theirs) or 0
    _differ(
        findings,
        "P320",
        f"merge {index} of `{MERGES}` is another in the draft than in the target",
        draft,
        expected=f"`{theirs.text(index)[:_SHOWN]}`",
        found=f"`{ours.text(index)[:_SHOWN]}`",
    )


def _settings(
    findings: Findings, draft: Vocabulary, target: Vocabulary, ignore: Collection[str]
) -> None:
    pairs: list[tuple[str, object, object]] = [
        (MODEL, draft.model, target.model),
        (PRE, draft.pre, target.pre),
        ("tokenizer.ggml.add_bos_token", draft.add_bos, target.add_bos),
        ("tokenizer.ggml.add_eos_token", draft.add_eos, target.add_eos),
    ]
    pairs += [
        (f"tokenizer.ggml.{name}_token_id", draft.special.get(name), target.special.get(name))
        for name in SPECIAL_NAMES
        if name not in ignore
    ]
    for key, ours, theirs in pairs:
        if ours != theirs:
            _differ(
                findings,
                "P321",
                f"`{key}` is another in the draft than in the target",
                draft,
                expected=_stated(theirs),
                found=_stated(ours),
            )
    if draft.eog != target.eog:
        _differ(
            findings,
            "P321",
            "other tokens end generation in the draft than in the target",
            draft,
            expected=_ids(target.eog),
            found=_ids(draft.eog),
        )


def _differ(  # noqa: PLR0913 - the fields of one diagnostic
    findings: Findings,
    code: str,
    message: str,
    draft: Vocabulary,
    *,
    expected: object,
    found: object,
) -> None:
    findings.add(
        code,
        message,
        place=draft.name,
        expected=f"{expected} (target)",
        found=f"{found} (draft)",
        hint=_HINT,
    )


def _first_difference(ours: Strings, theirs: Strings) -> int | None:
    """The first index at which the texts differ; None when one begins the other."""
    if len(ours) == len(theirs) and ours.region == theirs.region:
        return None
    pairs = zip(ours.items(), theirs.items(), strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), None)


def _first_index(ours: Iterable[float], theirs: Iterable[float]) -> int:
    pairs = zip(ours, theirs, strict=False)
    return next(index for index, (a, b) in enumerate(pairs) if a != b)


def _region(array: Strings | Numbers | None) -> memoryview | bytes:
    return b"" if array is None else array.region


def _presence(array: Numbers | None) -> str:
    return "absent" if array is None else "present"


def _stated(value: object) -> str:
    return "not stated" if value is None else str(value) or "not stated"


def _ids(ids: frozenset[int]) -> str:
    shown = ", ".join(map(str, sorted(ids)[:_SHOWN_IDS]))
    return shown + (", …" if len(ids) > _SHOWN_IDS else "")
