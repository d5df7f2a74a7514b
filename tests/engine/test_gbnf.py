"""Where the checker of grammars repeats a rule of llama.cpp's, the library is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from power.backends.llamacpp.gbnf import grammar_fault
from tests.backends.test_gbnf import BAD, GOOD
from tests.engine.test_vocabulary import vocabulary_alone

OURS = ("outside", "more than", "NUL", "no text")  # bounds of Power's own

WORDS = st.sampled_from(
    [
        *('"a"', '""', '"a', "[a-z]", "[^a]", "[]", "[", "]", ".", "(", ")", "|", "*", "+", "?"),
        *("{2}", "{0}", "{0,2}", "{1,}", "{,2}", "{", "}", "<[1]>", "<[", "!<[2]>", "<", "\n"),
        *("root", "a", "b", "c-1", "::=", " ::= ", "\nroot ::= ", "\na ::= ", "\nb ::= ", " "),
        *("# x\n", "\\", r'"\x4"', r'"\x41"', r"[\]-a]", "é", '"é"', "\r\n", "\r", "\t", "_"),
    ]
)
TEXTS = st.lists(WORDS, max_size=14).map(lambda parts: "root ::= " + " ".join(parts))
BODIES = st.lists(
    st.sampled_from(["root", "a", "b", "c", '"x"', '""', "|", "?", "*", "(", ")"]), max_size=5
).map(" ".join)
RULES = st.tuples(BODIES, BODIES, BODIES, BODIES).map(
    lambda bodies: "root ::= {}\na ::= {}\nb ::= {}\nc ::= {}\n".format(*bodies)
)


@pytest.fixture(scope="module")
def accepts(models: Any) -> Any:
    """Whether the library takes a grammar."""
    from power.backends.llamacpp.library import native

    lib = native()
    (path,) = models["target"]

    with vocabulary_alone(Path(path)) as vocabulary:

        def ask(text: str) -> bool:
            link = lib.llama_sampler_init_grammar(vocabulary._vocab, text.encode(), b"root")
            if link:
                lib.llama_sampler_free(link)
            return bool(link)

        yield ask


@pytest.mark.parametrize("text", [*GOOD, *BAD])
def test_the_library_agrees(accepts: Any, text: str) -> None:
    fault = grammar_fault(text)
    if "<token>" in text or (fault is not None and any(word in fault for word in OURS)):
        return
    assert accepts(text) == (fault is None), fault


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS | RULES)
def test_the_library_agrees_on_any_text(accepts: Any, text: str) -> None:
    fault = grammar_fault(text)
    if fault is not None and any(word in fault for word in OURS):
        return
    named = "<" in text.replace("<[", "")  # whether such a token exists is the vocabulary's word
    if fault is None and named:
        return
    assert accepts(text) == (fault is None), fault
