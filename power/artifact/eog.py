"""Which tokens end generation, found the way llama.cpp finds them.

GGUF states one end-of-sequence id; the others are known by their text. Source:
`llama_vocab::impl::load` in llama.cpp, src/llama-vocab.cpp, the part that fills
`special_eog_ids`.
"""

from __future__ import annotations

from collections.abc import Mapping

_ENDS = tuple(
    text.encode()
    for text in (
        *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>"),
        *("<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>"),
        *("_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>"),
        *("<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~["),  # noqa: RUF001
    )
)
# Texts that name a fill-in-the-middle token which ends generation, unless a key names one.
_FILL_IN = {
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
}
_PLAIN_END_MARKS = (b"<|tool_response>", b"<|plamo:eos|>")

CANDIDATES: frozenset[bytes] = frozenset(
    (*_ENDS, *(text.encode() for texts in _FILL_IN.values() for text in texts), *_PLAIN_END_MARKS)
)
"""Every text that the rules look for."""


def end_of_generation(ids: Mapping[bytes, int], special: Mapping[str, int]) -> frozenset[int]:
    """The ids that end generation.

    `ids` gives the id of each text of CANDIDATES that the vocabulary has,
    `special` the ids that the file states.
    """
    ends = {ids[text] for text in _ENDS if text in ids}
    ends |= {special[name] for name in ("eos", "eot", "eom") if name in special}
    for name, texts in _FILL_IN.items():
        found = (ids[text.encode()] for text in texts if text.encode() in ids)
        number = special.get(name, next(found, None))
        if number is not None:
            ends.add(number)
    return frozenset(ends - _exceptions(ids, ends))


def _exceptions(ids: Mapping[bytes, int], ends: set[int]) -> set[int]:
    """Ends that are no ends beside certain others: `<|end|>` and `</s>`."""

    def has(text: bytes) -> bool:
        return ids.get(text) in ends

    out: set[int] = set()
    calls = has(b"<|call|>") or has(b"<|calls|>")
    if calls and (has(b"<|return|>") or has(b"<|flush|>")) and has(b"<|end|>"):
        out.add(ids[b"<|end|>"])
    if any(has(text) for text in _PLAIN_END_MARKS) and has(b"</s>"):
        out.add(ids[b"</s>"])
    return out
