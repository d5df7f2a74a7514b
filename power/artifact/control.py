"""Which tokens a file's vocabulary keeps for control: what no message may spell by accident.

They are those of type control or unknown, and those that llama.cpp takes for control by
their text whatever the file says. Source: `llama_vocab::impl::load` in llama.cpp,
src/llama-vocab.cpp, "its type will be overridden".
"""

from __future__ import annotations

from power.artifact.eog import CANDIDATES
from power.artifact.header import Header
from power.artifact.values import Numbers, Strings
from power.artifact.vocabulary import TOKENS, TYPES

_UNKNOWN, _CONTROL = 2, 3
_BY_NAME = CANDIDATES | {
    text.encode()
    for text in (
        *("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>"),  # noqa: RUF001
        *("▁<PRE>", "<|code_prefix|>", "<|prefix|>"),
        *("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>"),  # noqa: RUF001
        *("▁<SUF>", "<|code_suffix|>", "<|suffix|>"),
        *("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>"),  # noqa: RUF001
        *("▁<MID>", "<|code_middle|>", "<|middle|>"),
    )
}


def control_texts(header: Header) -> frozenset[str]:
    """The texts of a vocabulary's control tokens; empty where there is no vocabulary."""
    tokens, types = (
        None if value is None else value.data
        for value in (header.values.get(TOKENS), header.values.get(TYPES))
    )
    if not isinstance(tokens, Strings):
        return frozenset()
    items = tokens.items()
    found = _BY_NAME.intersection(items)
    if isinstance(types, Numbers):
        kinds = zip(items, types.items(), strict=False)
        found |= {text for text, kind in kinds if kind in {_UNKNOWN, _CONTROL}}
    return frozenset(text.decode("utf-8", "replace") for text in found if text)
