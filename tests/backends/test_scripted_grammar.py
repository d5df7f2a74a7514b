"""The grammar twin: what it takes, what it refuses, and when a text may end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.backends.scripted.grammar import Grammar
from power.backends.scripted.model import END, Vocabulary, byte_vocabulary

BYTES = byte_vocabulary()

# A grammar and a regular expression for the same language.
TWINS = {
    'root ::= "a" | "bc"': r"a|bc",
    'root ::= [a-c]+ "x"?': r"[a-c]+x?",
    'root ::= ("a" "b")* [^ab]': r"(ab)*[^ab]",
    "root ::= item (',' item)*\nitem ::= [0-9] | item2 # two\nitem2 ::= \"-\" [0-9]".replace(
        "','", '","'
    ): r"(\d|-\d)(,(\d|-\d))*",
    'root ::= "a" (\n "b" | "c"\n)+': r"a(b|c)+",
    r'root ::= "\n" | "\"" [\]x\-]': r'\n|"[\]x\-]',
    'root ::= "é" | "a" root "b"': None,
}


def accepts(grammar: Grammar, data: bytes) -> bool:
    """Whether `data` can be written one allowed token at a time and then ended."""
    state = grammar.start
    for byte in data:
        if not grammar.allowed(state)[byte]:
            return False
        state = grammar.accept(state, byte)
    return grammar.allowed(state)[END]


@pytest.mark.parametrize(("text", "twin"), [(g, r) for g, r in TWINS.items() if r is not None])
def test_a_grammar_takes_the_same_texts_as_its_twin(text: str, twin: str) -> None:
    grammar = Grammar(text, BYTES)
    pattern = re.compile(twin)

    @given(st.text('abcx,-1\n"]', max_size=5))
    def same(written: str) -> None:
        assert accepts(grammar, written.encode()) == bool(pattern.fullmatch(written))

    same()


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_a_grammar_counts_what_a_regular_expression_cannot(depth: int) -> None:
    grammar = Grammar('root ::= "é" | "a" root "b"', BYTES)
    middle = "é".encode()
    assert accepts(grammar, b"a" * depth + middle + b"b" * depth)
    assert not accepts(grammar, b"a" * depth + middle + b"b" * (depth + 1))
    assert not accepts(grammar, b"a" * (depth + 1) + middle + b"b" * depth)


def test_control_tokens_are_never_allowed() -> None:
    grammar = Grammar("root ::= [^b]*", BYTES)
    allowed = grammar.allowed(grammar.start)
    assert [i for i in range(len(allowed)) if not allowed[i]] == [ord("b"), 258, 259]


def test_a_grammar_that_leads_nowhere_says_so() -> None:
    """The text has to go on with `c`, and no token of the vocabulary writes it."""
    letters = Vocabulary([b"a", b"b"], frozenset())
    grammar = Grammar('root ::= "ac"', letters)
    state = grammar.accept(grammar.start, 0)
    with pytest.raises(ValueError, match="no token"):
        grammar.allowed(state)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "root"),
        ('top ::= "a"', "root"),
        ("root ::= other", "other"),
        ('root ::= root "a" | "b"', "left recursion"),
        ('root ::= a\na ::= b? a "x"\nb ::= "b"', "left recursion"),
        ('root ::= ("a"?)*', "left recursion"),
        ('root ::= "a', "subset"),
        ('root ::= ("a"', "subset"),
        ('root ::= "a" )', "subset"),
        ('root ::= "a"{2}', "subset"),
        ("root ::= [ä]", "ASCII"),
        ("nonsense", "subset"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Grammar(text, BYTES)
