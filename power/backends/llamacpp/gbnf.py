"""GBNF as llama.cpp reads it, checked without the library and before it.

A grammar that the library would not take is told of where it is written, not after a
model was loaded; one on which it would hang or fill the memory never reaches it. What
only a vocabulary can tell, whether a token `<name>` exists, is left to the library.

Source: llama.cpp, src/llama-grammar.cpp, `llama_grammar_parser` and
`llama_grammar_detect_left_recursion`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NoReturn

LONGEST = 64 * 1024
"""Bytes of a grammar; Power's own bound."""

DEEPEST = 64
"""Parentheses inside one another; the library recurses once a level."""

MOST_REPEATS = 2000
"""Largest count in `{m,n}`, and of rules that a repetition makes; the library's own bound."""

LARGEST = 4_000_000
"""Elements after repetitions are written out, 8 bytes each; Power's own bound."""

MOST_STEPS = 1_000_000
"""Rules that the library may visit in search of left recursion; Power's own bound."""

_DIGITS = frozenset("0123456789")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") | _DIGITS
_HEX = frozenset("0123456789abcdefABCDEF")
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
_ESCAPES = frozenset('trn\\"[]-')

_CHARACTER, _ALTERNATIVE = None, "|"  # elements of a rule beside references to others
_Name = str | int  # of a rule that is written, or that a group or repetition makes
_Element = tuple[_Name] | str | None
_Rules = dict[_Name, list[_Element]]


def grammar_fault(text: str) -> str | None:
    """Why the library would not take `text`, or must not see it; None for a grammar."""
    if not text.strip():
        return "no text"  # the library takes it for "no grammar"
    if "\0" in text:
        return "a NUL character"  # C would end the text there
    if len(text.encode("utf-8")) > LONGEST:
        return f"more than {LONGEST} bytes"
    parser = _Parser(text)
    try:
        parser.parse()
    except _Fault as fault:
        before = text[: fault.at]
        line, column = before.count("\n") + 1, fault.at - before.rfind("\n")
        return f"line {line}, column {column}: {fault}"
    return _undefined(parser) or _left_recursion(parser.rules)


def _undefined(parser: _Parser) -> str | None:
    if "root" not in parser.rules:
        return "there is no rule `root`"
    missing = sorted(name for name in parser.named if name not in parser.rules)
    return f"no rule for `{'`, `'.join(missing)}`" if missing else None


class _Fault(Exception):  # noqa: N818 - soon the text of a diagnostic
    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class _Parser:
    """The library's parser, step by step, but for repetitions, which are not written out."""

    def __init__(self, text: str) -> None:
        self.rules: _Rules = {}
        self.named: set[str] = set()
        self._text = text
        self._made = 0  # rules that groups and repetitions make
        self._size = 0  # elements with repetitions written out
        self._depth = 0

    def parse(self) -> None:
        """Read every rule; raises _Fault."""
        at = self._space(0, newlines=True)
        while at < len(self._text):
            at = self._rule(at)

    def _rule(self, at: int) -> int:
        end = self._word(at, "a rule's name")
        name = self._text[at:end]
        self.named.add(name)
        at = self._space(end, newlines=False)
        if not self._text.startswith("::=", at):
            self._fail("expected `::=`", at)
        at = self._alternatives(self._space(at + 3, newlines=True), name, nested=False)
        if at < len(self._text) and self._text[at] not in "\r\n":
            self._fail("expected the end of the rule", at)
        return self._space(at, newlines=True)

    def _alternatives(self, at: int, name: _Name, *, nested: bool) -> int:
        elements: list[_Element] = []
        at = self._sequence(at, elements, nested=nested)
        while self._peek(at) == "|":
            elements.append(_ALTERNATIVE)
            at = self._sequence(self._space(at + 1, newlines=True), elements, nested=nested)
        self.rules[name] = elements
        return at

    def _sequence(self, at: int, elements: list[_Element], *, nested: bool) -> int:
        start, rules = len(elements), 1  # of the item before, and the rules that it is made of
        while (char := self._peek(at)) and (char in '"[<!(.*+?{' or char in _WORD):
            if char in "*+?{":
                begin = at
                at, least, most = self._count(at, nested=nested)
                rules = self._repeat(elements, start, rules, (least, most), begin)
                continue
            start, rules, made = len(elements), 1, self._ids
            at = self._item(at, char, elements)
            if char == "(":
                rules = max(1, self._ids - made)
            self._grow(len(elements) - start, at)
            at = self._space(at, newlines=nested)
        return at

    @property
    def _ids(self) -> int:
        return len(self.named) + self._made

    def _item(self, at: int, char: str, elements: list[_Element]) -> int:
        """One item after its first character's kind; the place behind it."""
        match char:
            case '"':
                return self._literal(at + 1, elements)
            case "[":
                return self._characters(at + 1, elements)
            case "<" | "!":
                elements.append(_CHARACTER)
                return self._token(at + (char == "!"))
            case "(":
                return self._group(at, elements)
            case ".":
                elements.append(_CHARACTER)
                return at + 1
            case _:
                end = self._word(at, "a name")
                self.named.add(self._text[at:end])
                elements.append((self._text[at:end],))
                return end

    def _literal(self, at: int, elements: list[_Element]) -> int:
        while self._peek(at) != '"':
            at = self._char(at)
            elements.append(_CHARACTER)
        return at + 1

    def _characters(self, at: int, elements: list[_Element]) -> int:
        at += self._peek(at) == "^"
        first = True
        while self._peek(at) != "]":
            at = self._char(at)
            if first:
                elements.append(_CHARACTER)
            first = False
            if self._peek(at) == "-" and self._peek(at + 1) != "]":
                at = self._char(at + 1)
        return at + 1

    def _token(self, at: int) -> int:
        if self._peek(at) != "<":
            self._fail("expected `<`", at)
        if self._peek(at + 1) != "[":
            end = self._text.find(">", at)
            if end < 0:
                self._fail("expected `>`", len(self._text))
            return end + 1
        end = self._integer(at + 2)
        if int(self._text[at + 2 : end][:20]) > 0xFFFFFFFF:  # noqa: PLR2004 - 32 bits
            self._fail("the token id is too large", at)
        if not self._text.startswith("]>", end):
            self._fail("expected `]>`", end)
        return end + 2

    def _group(self, at: int, elements: list[_Element]) -> int:
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(f"parentheses more than {DEEPEST} deep", at)
        name = self._make()
        at = self._alternatives(self._space(at + 1, newlines=True), name, nested=True)
        if self._peek(at) != ")":
            self._fail("expected `)`", at)
        elements.append((name,))
        self._depth -= 1
        return at + 1

    def _count(self, at: int, *, nested: bool) -> tuple[int, int, int | None]:
        """The place behind `*`, `+`, `?` or `{m,n}`, and m and n."""
        mark = self._text[at]
        if mark != "{":
            behind = self._space(at + 1, newlines=nested)
            return behind, int(mark == "+"), 1 if mark == "?" else None
        begin = at
        at = self._space(at + 1, newlines=nested)
        end = self._integer(at)
        least: int = self._number(at, end)
        most: int | None = least
        at = self._space(end, newlines=nested)
        if self._peek(at) == ",":
            at = self._space(at + 1, newlines=nested)
            most = None
            if self._peek(at) in _DIGITS:
                end = self._integer(at)
                most = self._number(at, end)
                at = self._space(end, newlines=nested)
        if self._peek(at) != "}":
            self._fail("expected `}`", at)
        # With m above n the library subtracts unsigned numbers and fills the memory.
        if least > MOST_REPEATS or (most is not None and not least <= most <= MOST_REPEATS):
            self._fail(f"a repetition outside 0 <= m <= n <= {MOST_REPEATS}", begin)
        return self._space(at + 1, newlines=nested), least, most

    def _number(self, at: int, end: int) -> int:
        return int(self._text[at : min(end, at + 20)].lstrip("0") or "0")

    def _repeat(
        self,
        elements: list[_Element],
        start: int,
        rules: int,
        count: tuple[int, int | None],
        at: int,
    ) -> int:
        """Repeat what stands from `start` on; of how many rules it is made then."""
        if start == len(elements):
            self._fail("nothing to repeat", at)
        least, most = count
        repeated = elements[start:]
        rules *= most or least or 1
        if rules > MOST_REPEATS:
            self._fail(f"a repetition that makes more than {MOST_REPEATS} rules", at)
        if least == 0:
            del elements[start:]
        optional = 1 if most is None else most - least
        self._grow(len(repeated) * (least + optional), at)
        if optional:
            name = self._make()
            self._made += optional - 1
            again: list[_Element] = [(name,)] if most is None else []
            self.rules[name] = [*repeated, *again, _ALTERNATIVE]
            elements.append((name,))
        return rules

    def _make(self) -> int:
        self._made += 1
        return self._made

    def _grow(self, elements: int, at: int) -> None:
        self._size += elements
        if self._size > LARGEST:
            self._fail(f"more than {LARGEST} elements with repetitions written out", at)

    def _char(self, at: int) -> int:
        """The place behind one character of a literal or a class."""
        char = self._peek(at)
        if char == "":
            self._fail("the text ends here", at)
        if char != "\\":
            return at + 1
        escape = self._peek(at + 1)
        digits = _HEX_ESCAPES.get(escape)
        if digits is not None:
            written = self._text[at + 2 : at + 2 + digits]
            if len(written) < digits or not _HEX.issuperset(written):
                self._fail(f"expected {digits} hexadecimal digits", at)
            return at + 2 + digits
        if escape == "" or escape not in _ESCAPES:
            self._fail("an unknown escape", at)
        return at + 2

    def _word(self, at: int, what: str) -> int:
        return self._while(at, _WORD, what)

    def _integer(self, at: int) -> int:
        return self._while(at, _DIGITS, "a number")

    def _while(self, at: int, allowed: frozenset[str], what: str) -> int:
        end = at
        while self._peek(end) in allowed:
            end += 1
        if end == at:
            self._fail(f"expected {what}", at)
        return end

    def _space(self, at: int, *, newlines: bool) -> int:
        blank = " \t\r\n" if newlines else " \t"
        while (char := self._peek(at)) and (char in blank or char == "#"):
            at += 1
            if char == "#":
                while self._peek(at) not in {"", "\r", "\n"}:
                    at += 1
        return at

    def _peek(self, at: int) -> str:
        """The character at `at`; empty at the end."""
        return self._text[at : at + 1]

    def _fail(self, message: str, at: int) -> NoReturn:
        raise _Fault(message, at)


def _left_recursion(rules: _Rules) -> str | None:
    """Why the library's search for left recursion would refuse, or never end."""
    steps: dict[_Name, int] = {}  # visits from a rule on, the library does not remember any
    path: dict[_Name, Iterator[_Name]] = {}
    for root in rules:
        current: _Name | None = root if root not in steps else None
        while current is not None or path:
            if current is not None:
                if current in path:
                    written = [name for name in path if isinstance(name, str)]
                    where = f"rule `{written[-1]}`" if written else "a rule"
                    return f"left recursion in {where}"
                path[current] = iter(_leftmost(rules, current))
            name, following = next(reversed(path.items()))
            current = next((n for n in following if n not in steps), None)
            if current is None:
                del path[name]
                steps[name] = 1 + sum(steps[n] for n in _leftmost(rules, name))
                if steps[name] > MOST_STEPS:
                    return f"more than {MOST_STEPS} steps to look for left recursion"
    return None


def _leftmost(rules: _Rules, name: _Name) -> list[_Name]:
    """The rules that a text of rule `name` may begin with, as often as the library visits them."""
    found: list[_Name] = []
    first = True
    for element in rules[name]:
        if element == _ALTERNATIVE:
            first = True
        elif isinstance(element, tuple) and first:
            found.append(element[0])
            first = _has_empty_alternative(rules[element[0]])
        else:
            first = False
    return found


def _has_empty_alternative(elements: list[_Element]) -> bool:
    borders = [-1, *(i for i, e in enumerate(elements) if e == _ALTERNATIVE), len(elements)]
    return any(b - a == 1 for a, b in pairwise(borders))
