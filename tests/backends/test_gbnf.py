"""The checker of GBNF: what it says and where; that the library agrees is tested in the engine."""

from __future__ import annotations

import pytest

from power.backends.llamacpp.gbnf import DEEPEST, MOST_REPEATS, grammar_fault

GOOD = (
    'root ::= "a" | b\nb ::= [a-z]+ # text\n',
    "root ::= ",
    'root ::= ("a" | \n "b")* "c"?',
    r'root ::= "\x41\u00e9\U0001F600\n\"\\" [^\]\-a-] .',
    'root ::= "a"{2} "b"{2,} "c"{0,3} (x y){1,2}\nx ::= "x"\r\ny ::= "y"',
    "root ::= <[12]> !<[3]> <token>",
    '# a comment\nroot-1 ::= "a"\nroot ::= root-1 root-1',
    'root ::= "a" root | "b"',
    'root ::= "é"',
    'root ::= ("a"{50}){50}',
    'root ::= ("a"?)*',  # the library looks for empty alternatives in a rule itself alone
)
BAD = {
    "": "no text",
    "a\0": "a NUL character",
    'a ::= "a"': "there is no rule `root`",
    "root ::= a b": "no rule for `a`, `b`",
    "root = 1": "line 1, column 6: expected `::=`",
    'root ::= "a': "line 1, column 12: the text ends here",
    "root ::= [a-": "line 1, column 13: the text ends here",
    'root ::= "a"\nb ::= (c': "line 2, column 9: expected `)`",
    'root ::= "a" )': "line 1, column 14: expected the end of the rule",
    "root ::= *": "line 1, column 10: nothing to repeat",
    'root ::= ""*': "line 1, column 12: nothing to repeat",
    r'root ::= "\q"': "line 1, column 11: an unknown escape",
    r'root ::= "\u00g0"': "line 1, column 11: expected 4 hexadecimal digits",
    'root ::= "a"{2,1}': f"line 1, column 13: a repetition outside 0 <= m <= n <= {MOST_REPEATS}",
    'root ::= "a"{x}': "line 1, column 14: expected a number",
    'root ::= "a"{1;2}': "line 1, column 15: expected `}`",
    "root ::= <[99999999999]>": "line 1, column 10: the token id is too large",
    "root ::= <a": "line 1, column 12: expected `>`",
    "root ::= !a": "line 1, column 11: expected `<`",
    "root ::= root": "left recursion in rule `root`",
    'root ::= a\na ::= b "x"\nb ::= | root': "left recursion in rule `b`",
    "a_b ::= c": "line 1, column 2: expected `::=`",
}


@pytest.mark.parametrize("text", GOOD)
def test_a_grammar(text: str) -> None:
    assert grammar_fault(text) is None


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_and_where(text: str) -> None:
    assert grammar_fault(text) == BAD[text]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('root ::= "a" # ' + "x" * 70_000, "more than 65536 bytes"),
        ("root ::= " + "(" * (DEEPEST + 1) + '"a"' + ")" * (DEEPEST + 1), "deep"),
        ('root ::= "a"{' + "9" * 5000 + "}", "outside 0 <= m <= n"),
        (f'root ::= "{"a" * 30_000}"{{2000}}', "elements"),
        ('root ::= ("a"{0,50}){50}', "makes more than 2000 rules"),
    ],
)
def test_what_the_library_must_not_see(text: str, words: str) -> None:
    assert words in (grammar_fault(text) or "")


def test_a_search_without_end_is_not_begun() -> None:
    """The library visits a rule anew for every way to it: here 2 to the power of 60 times."""
    rules = [f"a{i} ::= a{i + 1} | a{i + 1}" for i in range(60)]
    text = "\n".join(["root ::= a0", *rules, 'a60 ::= "x"'])
    assert "steps" in (grammar_fault(text) or "")


def test_a_long_chain_of_rules_needs_no_stack() -> None:
    rules = [f"a{i} ::= a{i + 1}" for i in range(3000)]
    text = "\n".join(["root ::= a0", *rules, 'a3000 ::= "x"'])
    assert grammar_fault(text) is None
