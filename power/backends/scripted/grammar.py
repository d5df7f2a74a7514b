"""A grammar acceptor over bytes: the part of GBNF that needs no library.

Rules `name ::= a b | c`, literals, character classes of ASCII with ranges and
`^`, groups, and the suffixes `?`, `*` and `+`. States are immutable, so that a
checkpoint is a reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from power.backends.scripted.model import Vocabulary

_Set = frozenset[int]  # the bytes that a position allows
_Symbol = _Set | str  # a set of bytes, or the name of a rule
_Stack = tuple[_Symbol, ...]  # what is still to come, the next symbol first
_Rules = dict[str, list[_Stack]]

GrammarState = frozenset[_Stack]
"""Every way to go on; the empty stack is in it where the text may end."""

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_TOKEN = re.compile(
    r"""\s*(?:\#[^\n]*\s*)*(?:
        (?P<rule>[a-zA-Z][a-zA-Z0-9_-]*)\s*::=
      | (?P<name>[a-zA-Z][a-zA-Z0-9_-]*)
      | "(?P<literal>(?:[^"\\]|\\.)*)"
      | \[(?P<class>(?:[^\]\\]|\\.)+)\]
      | (?P<mark>[|()?*+])
      | (?P<end>$)
    )""",
    re.VERBOSE | re.DOTALL,
)


class Grammar:
    """A compiled grammar for one vocabulary; `root` is where it starts.

    Raises ValueError for text that is not of this subset, for a name without a
    rule, and for left recursion.
    """

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self._rules = _Parser(text).rules()
        self._vocabulary = vocabulary
        self._allowed: dict[GrammarState, tuple[bool, ...]] = {}
        _check(self._rules)
        self.start: GrammarState = frozenset(self._expand(("root",)))

    def allowed(self, state: GrammarState) -> tuple[bool, ...]:
        """For each token, whether the text may go on with it."""
        known = self._allowed.get(state)
        if known is None:
            size = self._vocabulary.size
            known = tuple(self._allows(state, token) for token in range(size))
            if not any(known):
                raise ValueError("the grammar allows no token of this vocabulary here")
            self._allowed[state] = known
        return known

    def accept(self, state: GrammarState, token: int) -> GrammarState:
        """The state behind `token`, which must be allowed; an end changes nothing."""
        if self._vocabulary.is_end(token):
            return state
        for byte in self._vocabulary.piece(token):
            state = self._advance(state, byte)
        return state

    def _allows(self, state: GrammarState, token: int) -> bool:
        if self._vocabulary.is_end(token):
            return () in state
        return bool(self._vocabulary.piece(token)) and bool(self.accept(state, token))

    def _advance(self, state: GrammarState, byte: int) -> GrammarState:
        return frozenset(
            following
            for first, *rest in filter(None, state)
            if byte in first
            for following in self._expand(tuple(rest))
        )

    def _expand(self, stack: _Stack) -> Iterator[_Stack]:
        """Stacks that start with bytes, or are empty, with the same meaning."""
        if stack and isinstance(stack[0], str):
            for alternative in self._rules[stack[0]]:
                yield from self._expand(alternative + stack[1:])
        else:
            yield stack


@dataclass
class _Parser:
    text: str
    _at: int = 0
    _rules: _Rules = field(default_factory=dict)

    def rules(self) -> _Rules:
        while (match := self._peek())["end"] is None:
            if match["rule"] is None:
                self._refuse()
            self._at = match.end()
            self._rules[match["rule"]] = self._alternatives()
        return self._rules

    def _alternatives(self) -> list[_Stack]:
        found = [self._sequence()]
        while self._peek()["mark"] == "|":
            self._at = self._peek().end()
            found.append(self._sequence())
        return found

    def _sequence(self) -> _Stack:
        symbols: list[_Symbol] = []
        while (item := self._item()) is not None:
            mark = self._peek()["mark"]
            if mark is not None and mark in "?*+":
                self._at = self._peek().end()
                item = (self._repeated(item, mark),)
            symbols += item
        return tuple(symbols)

    def _item(self) -> _Stack | None:
        match = self._peek()
        if match["name"] is not None:
            item: _Stack = (match["name"],)
        elif match["literal"] is not None:
            item = tuple(
                frozenset({byte}) for byte in "".join(_characters(match["literal"])).encode()
            )
        elif match["class"] is not None:
            item = (_class(match["class"]),)
        elif match["mark"] == "(":
            self._at = match.end()
            item = (self._rule(self._alternatives()),)
            match = self._peek()
            if match["mark"] != ")":
                self._refuse()
        else:
            return None
        self._at = match.end()
        return item

    def _repeated(self, item: _Stack, mark: str) -> str:
        if mark == "?":
            return self._rule([item, ()])
        again = self._rule([])
        self._rules[again] += [(*item, again), ()]
        return again if mark == "*" else self._rule([(*item, again)])

    def _rule(self, alternatives: list[_Stack]) -> str:
        name = f"({len(self._rules)})"  # no written name looks like this
        self._rules[name] = alternatives
        return name

    def _peek(self) -> re.Match[str]:
        match = _TOKEN.match(self.text, self._at)
        if match is None:
            self._refuse()
        return match

    def _refuse(self) -> NoReturn:
        raise ValueError(f"not in the grammar subset: {self.text[self._at :][:40]!r}")


def _characters(written: str) -> Iterator[str]:
    characters = iter(written)
    for character in characters:
        if character == "\\":
            escaped = next(characters)
            yield _ESCAPES.get(escaped, escaped)
        else:
            yield character


def _class(written: str) -> _Set:
    negated = written.startswith("^")
    found: set[int] = set()
    characters = list(_characters(written[negated:]))
    while characters:
        low = high = characters.pop(0)
        if len(characters) > 1 and characters[0] == "-":
            high = characters[1]
            del characters[:2]
        if not (low + high).isascii():
            raise ValueError(f"a character class beyond ASCII: [{written}]")
        found.update(range(ord(low), ord(high) + 1))
    return frozenset(range(256)) - found if negated else frozenset(found)


def _check(rules: Mapping[str, list[_Stack]]) -> None:
    """Every name has a rule, and no rule can start with itself."""
    missing = {s for alts in rules.values() for alt in alts for s in alt if isinstance(s, str)}
    missing = (missing | {"root"}) - set(rules)
    if missing:
        raise ValueError(f"names without a rule: {', '.join(sorted(missing))}")
    nullable: set[str] = set()
    while grown := {
        name
        for name, alts in rules.items()
        if name not in nullable and any(all(s in nullable for s in alt) for alt in alts)
    }:
        nullable |= grown
    leads = {name: set(_leading(alts, nullable)) for name, alts in rules.items()}
    for name in rules:
        reached, todo = set[str](), [name]
        while todo:
            for first in leads[todo.pop()] - reached:
                reached.add(first)
                todo.append(first)
        if name in reached:
            raise ValueError(f"left recursion in rule {name}")


def _leading(alternatives: list[_Stack], nullable: set[str]) -> Iterator[str]:
    for alternative in alternatives:
        for symbol in alternative:
            if isinstance(symbol, str):
                yield symbol
            if symbol not in nullable:
                break
