"""Chat templates made to get out, to go on for ever, or to use everything up: none does."""

from __future__ import annotations

import pytest

from power.diagnostics import PowerError, as_text
from power.runner.chat import render_chat

HELLO = [{"role": "user", "content": "hi"}]
REFUSED = {
    "a class by format": ("{{ '{0.__class__.__mro__}'.format(messages) }}", "P562"),
    "subclasses": ("{{ ().__class__.__bases__[0].__subclasses__() }}", "P561"),
    "escaped underscores": ("{{ ''['\\x5f\\x5fclass\\x5f\\x5f'] }}", "P561"),
    "joined literals": ("{{ ''['__cla' 'ss__'] }}", "P561"),
    "globals of a function": ("{{ raise_exception.__globals__ }}", "P561"),
    "the owner of a method": ("{{ messages[0].items.__self__ }}", "P561"),
    "a change of the messages": ("{{ messages[0].update({'role': 'x'}) }}", "P562"),
    "another template": ("{% import 'x' as y %}", "P562"),
    "a codec": ("{{ 'a'.encode('punycode').decode('idna') }}", "P562"),
    "a wide number": ("{{ '%999999999d' % 1 }}", "P563"),
    "a wide field": ("{{ '{:>999999999}'.format(1) }}", "P563"),
    "a wide indent": ("{{ messages | tojson(indent=999999999) }}", "P563"),
    "a wide batch": ("{{ [1] | batch(999999999, 0) | list }}", "P563"),
    "a bomb of text": ("{{ ('a' * 1000000) | replace('a', 'b' * 1000000) }}", "P563"),
    "a bomb of lists": ("{{ messages * 99999999 }}", "P563"),
    "digits while compiling": ("{{ 10 ** 4999 }}", "P562"),
    "digits in a filter": ("{{ (2 ** 100000) | string }}", "P562"),
    "a division while compiling": ("{{ 0 ** -1 }}", "P562"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_words(name: str) -> None:
    template, code = REFUSED[name]
    with pytest.raises(PowerError) as caught:
        render_chat(template, HELLO, bos="", eos="")
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert found.hint
    shown = as_text([found])
    assert "File " not in shown
    assert ".py" not in shown


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% set c = '__class__' %}[{{ ''[c] }}]", "[]"),
        ("{{ messages | map(attribute='__class__') | list }}", "[Undefined]"),
        ("{{ '<b>a</b> c' | striptags | wordwrap(1) }}", "a\nc"),
    ],
)
def test_what_is_left_is_harmless(template: str, text: str) -> None:
    assert render_chat(template, HELLO, bos="", eos="").text == text
