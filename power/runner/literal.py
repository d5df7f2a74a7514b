"""Control tokens that somebody typed into a message: plain text, also behind a chat template.

A template writes control tokens such as `<|im_end|>` around the messages, so its text is
read with them as tokens. Whoever types one into a message must not speak with the
template's voice. So what a message spells is hidden behind a stand-in while the template
renders, and afterwards its places are known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Spans = tuple[tuple[int, int], ...]
"""(start, end) in characters of a text, in order and apart."""

_PRIVATE = range(0xF0000, 0x10FFFE)  # no template writes these, and hardly any message


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt's text.

    plain: the places in it that spell a control token and are none. spent_ns: how long
    a chat template took to make it, which is part of the request's time.
    """

    text: str
    plain: Spans = ()
    spent_ns: int = 0


@dataclass(frozen=True, slots=True)
class Hidden:
    """Messages for a template, and what each stand-in in them stands for."""

    messages: list[dict[str, Any]]
    stands_for: Mapping[str, str]

    def reveal(self, rendered: str) -> Rendered:
        """The template's text with what was hidden back in its places."""
        if not self.stands_for:
            return Rendered(rendered)
        text, plain, end = [], [], 0
        for part in re.split(f"([{''.join(self.stands_for)}])", rendered):
            shown = self.stands_for.get(part)
            if shown is not None:
                plain.append((end, end + len(shown)))
            text.append(part if shown is None else shown)
            end += len(text[-1])
        return Rendered("".join(text), tuple(plain))


def hide(
    messages: Sequence[Mapping[str, Any]], control: Collection[str], templates: Iterable[str] = ()
) -> Hidden:
    """`messages` with a character of private use for every control token that they spell.

    control: texts of control tokens. templates: texts whose characters are not used.
    """
    copies = [dict(message) for message in messages]
    spelt = re.compile("|".join(map(re.escape, sorted(control, key=len, reverse=True))))
    words = {word for text in _texts(copies) for word in spelt.findall(text)} if control else set()
    if not words:
        return Hidden(copies, {})
    taken = set().union(*_texts(copies), *templates)
    free = (chr(number) for number in _PRIVATE if chr(number) not in taken)
    stand_ins = dict(zip(sorted(words), free, strict=False))
    for message in copies:
        for key, value in message.items():
            if isinstance(value, str):
                message[key] = spelt.sub(lambda found: stand_ins[found[0]], value)
    return Hidden(copies, {stand_in: word for word, stand_in in stand_ins.items()})


def _texts(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    return (value for message in messages for value in message.values() if isinstance(value, str))
