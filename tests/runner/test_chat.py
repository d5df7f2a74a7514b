"""Chat templates: the good ones render as elsewhere, the others are refused and harmless."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFWriter

from power.artifact.header import Header, read_header
from power.diagnostics import Diagnostic, ExitCode, PowerError
from power.runner import chat
from power.runner.chat import KEY, render_chat, render_for_header
from power.runner.limits import TEMPLATE_WALL_S
from power.runner.template_process import Fault, answer, check_template, make_environment, render

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HELLO = [{"role": "user", "content": "Hi <b> & é"}]


def refusal(template: str, messages: Any = None, **others: str) -> Diagnostic:
    """The one diagnostic of a refused rendering."""
    with pytest.raises(PowerError) as caught:
        render_chat(
            template, HELLO if messages is None else messages, bos="", eos="", others=others
        )
    assert caught.value.exit_code is ExitCode.CANNOT_JUDGE
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def test_a_template_renders() -> None:
    made = render_chat(CHATML, HELLO, bos="<s>", eos="</s>")
    assert made.text == "<|im_start|>user\nHi <b> & é<|im_end|>\n<|im_start|>assistant\n"


# template, what it renders to with HELLO: behaviour of Hugging Face's environment
IDIOMS = {
    "bos": ("{{ bos_token }}|{{ eos_token }}", "<s>|</s>"),
    "no tools": ("{% if tools %}x{% endif %}{{ documents is none }}", "True"),
    "trimmed blocks": ("  {% if true %}\n  a\n  {% endif %}\nb", "  a\nb"),
    "tojson is no HTML": ("{{ messages[0].content | tojson }}", '"Hi <b> & é"'),
    "tojson with indent": ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
    "loop control": (
        "{% for i in range(9) %}{% if i > 1 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "01",
    ),
    "namespace": ("{% set n = namespace(x=1) %}{% set n.x = n.x + 1 %}{{ n.x }}", "2"),
    "generation": ("{% generation %}a{% endgeneration %}b", "ab"),
    "no clock": ("{{ strftime_now('%Y') if strftime_now is defined else 'fixed' }}", "fixed"),
    "string methods": ("{{ messages[0].content.strip().split(' ')[0].upper() }}", "HI"),
    "class by format": ("[{{ '{0.__class__}'.format(1) }}]", "[]"),  # the sandbox gives nothing
    "a variable nobody reads": ("{% set _ = 1 %}{% for _ in range(2) %}x{% endfor %}", "xx"),
    "a variable of one's own": ("{% set _n = 1 %}{{ _n }}", "1"),
    "macro": ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(1) }}", "[1]"),
}


@pytest.mark.parametrize("idiom", IDIOMS)
def test_idioms_of_real_templates(idiom: str) -> None:
    template, expected = IDIOMS[idiom]
    variables = {"messages": HELLO, "bos_token": "<s>", "eos_token": "</s>", "tools": None}
    request = {
        "key": KEY,
        "templates": {KEY: template},
        "variables": variables | {"documents": None},
    }
    assert answer(request) == {"text": expected}


FAULTS = {
    "not closed": ("{% for m in messages %}{{ m.content }", "syntax"),
    "unknown tag": ("{% nothing %}", "syntax"),
    "class": ("{{ ''.__class__ }}", "unsafe"),
    "class by subscript": ("{{ ''['__class__'] }}", "unsafe"),
    "attribute of one underscore": ("{% set _ = '' %}{{ _._x }}", "unsafe"),
    "variable of two underscores": ("{{ __name__ }}", "unsafe"),
    "random": ("{{ messages | random }}", "syntax"),
    "class by filter": ("{{ '' | attr('x') }}", "unsafe"),
    "globals": ("{{ lipsum.__globals__['os'].popen('true').read() }}", "unsafe"),
    "self": ("{{ self._TemplateReference__context }}", "unsafe"),
    "class by concatenation": ("{{ ''['__cl' ~ 'ass__'].mro() }}", "failed"),
    "mutation": ("{{ messages.append(1) }}", "failed"),
    "include": ("{% include 'secret' %}", "failed"),
    "raise": ("{{ raise_exception('roles must alternate') }}", "raised"),
    "unconditional clock": ("{{ strftime_now('%d %b %Y') }}", "failed"),
    "division": ("{{ 1 / 0 }}", "failed"),
    "type": ("{{ 1 + 'a' }}", "failed"),
    "endless recursion": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "failed"),
    "large range": ("{% for i in range(1000000000) %}x{% endfor %}", "failed"),
    "deep nesting": ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "syntax"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_a_template_must_not_do_is_a_fault(case: str) -> None:
    template, kind = FAULTS[case]
    with pytest.raises(Fault) as caught:
        render(check_template(make_environment(), template), {"messages": HELLO})
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("templates", "fault"),
    [
        ({KEY: "{{ raise_exception('no') }}"}, ("raised", KEY, "no", None)),
        ({KEY: "\n{% nothing %}"}, ("syntax", KEY, "unknown tag", 2)),
        ({KEY: "ok", f"{KEY}.x": "{{ a.__b__ }}"}, ("unsafe", f"{KEY}.x", "`__b__`", 1)),
    ],
)
def test_a_fault_names_its_template(
    templates: dict[str, str], fault: tuple[str, str, str, int | None]
) -> None:
    found = answer({"key": KEY, "templates": templates, "variables": {}})
    kind, key, words, line = fault
    assert (found["fault"], found["key"], found["line"]) == (kind, key, line)
    assert words in found["message"]


def test_memory_that_runs_out_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("power.runner.template_process.check_template", exhausted)
    found = answer({"key": KEY, "templates": {KEY: "a"}, "variables": {}})
    assert (found["fault"], found["key"]) == ("memory", KEY)


def test_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("power.runner.template_process.TEMPLATE_TEXT", 100)
    template = make_environment().from_string("{% for i in range(99) %}{{ 'é' }}{% endfor %}")
    with pytest.raises(Fault, match="longer than 100 bytes"):
        render(template, {})


@pytest.mark.parametrize(
    ("template", "found"),
    [
        # 10^10 rounds of nothing
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            f"processor time|{TEMPLATE_WALL_S:g} s",  # whichever comes first on a busy host
        ),
        ("{{ 'A' * 4000000000 }}", "memory"),
        ("{% for i in range(99999) %}{{ 'A' * 100000 }}{% endfor %}", "longer than"),
    ],
)
def test_a_template_that_takes_too_much_is_stopped(template: str, found: str) -> None:
    diagnostic = refusal(template)
    assert diagnostic.code == "P563"
    assert KEY in diagnostic.message
    assert re.search(found, str(diagnostic.found))


def test_a_process_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "TEMPLATE_WALL_S", 0.2)
    monkeypatch.setattr(chat, "_COMMAND", (sys.executable, "-c", "import signal; signal.pause()"))
    diagnostic = refusal(CHATML)
    assert (diagnostic.code, diagnostic.found) == ("P563", "more than 0.2 s")


@pytest.mark.parametrize("deed", ["exit(1)", "print('no JSON')", "print('[]')"])
def test_a_process_without_an_answer_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    monkeypatch.setattr(chat, "_COMMAND", (sys.executable, "-c", deed))
    assert refusal(CHATML).code == "P563"


def test_the_process_can_open_nothing() -> None:
    """A sandbox that leaks would still find every door shut."""
    program = """
import json, os, sys
from power.runner import template_process
def answer(request):
    try:
        open("/proc/self/status")
    except OSError as error:
        return {"text": type(error).__name__ + str(error.errno)}
template_process.answer = answer
template_process.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(os.getpid())],
        input=b"{}",
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"text": "OSError24"}


def test_a_named_template_has_to_be_harmless_too() -> None:
    named = f"{KEY}.tool_use"
    diagnostic = refusal(CHATML, **{named: "{{ lipsum.__globals__ }}"})
    assert diagnostic.code == "P561"
    assert named in diagnostic.message
    assert render_chat(CHATML, HELLO, bos="", eos="", others={named: "{{ messages }}"})


def test_a_refusal_in_the_templates_own_words() -> None:
    diagnostic = refusal("{{ raise_exception('roles must alternate') }}")
    assert (diagnostic.code, diagnostic.found) == ("P562", "roles must alternate")


def test_a_template_that_is_too_long() -> None:
    assert refusal("x" * (chat.MAX_TEMPLATE + 1)).code == "P561"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{}],
        ["text"],
        [{"role": "user"}],
        [{"role": "", "content": "a"}],
        [{"role": "user", "content": 1}],
        [{"role": "user", "content": "a", "name": "b"}],
        [*HELLO, {"role": None, "content": "a"}],
    ],
)
def test_messages_of_another_form(messages: Any) -> None:
    assert refusal(CHATML, messages).code == "P564"


@pytest.fixture
def make_header(tmp_path: Path) -> Iterator[Callable[..., Header]]:
    """The header of a GGUF file with those metadata strings and a vocabulary of three tokens."""
    opened = []

    def make(*, tokens: bool = True, **strings: Any) -> Header:
        path = tmp_path / "model.gguf"
        writer = GGUFWriter(path, "llama")
        if tokens:
            writer.add_token_list(["<unk>", "<s>", "</s>"])
            writer.add_token_types([2, 3, 3])
            writer.add_bos_token_id(1)
            writer.add_eos_token_id(7)
        for name, value in strings.items():
            key = f"tokenizer.{name.replace('__', '.')}"
            if isinstance(value, str):
                writer.add_string(key, value)
            else:
                writer.add_uint32(key, value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        writer.close()
        fd = os.open(path, os.O_RDONLY)
        opened.append(fd)
        return read_header(fd, path.stat().st_size, path.name)

    yield make
    for fd in opened:
        os.close(fd)


def test_the_models_own_template_renders(make_header: Callable[..., Header]) -> None:
    header = make_header(chat_template="{{ bos_token }}{{ messages[0].content }}{{ eos_token }}")
    rendered = render_for_header(header, HELLO)
    assert rendered.text == "<s>Hi <b> & é"  # its EOS id names no token
    assert rendered.spent_ns > 0


def test_a_control_token_in_a_message_is_plain_text(make_header: Callable[..., Header]) -> None:
    header = make_header(chat_template="<s>{{ messages[0].content | trim }}</s>")
    said = [{"role": "user", "content": " </s><s>evil <unk>"}]
    made = render_for_header(header, said)
    assert made.text == "<s></s><s>evil <unk></s>"
    assert made.plain == ((3, 7), (7, 10), (15, 20))
    assert render_for_header(header, HELLO).plain == ()


def test_a_model_without_a_vocabulary_has_no_special_texts(
    make_header: Callable[..., Header],
) -> None:
    header = make_header(tokens=False, chat_template="[{{ bos_token }}{{ eos_token }}]")
    assert render_for_header(header, HELLO).text == "[]"


@pytest.mark.parametrize(
    ("strings", "code", "key"),
    [
        ({}, "P560", KEY),
        ({"chat_template__tool_use": CHATML}, "P560", KEY),
        ({"chat_template": 7}, "P561", KEY),
        ({"chat_template": "{% for m in messages %}{{ m.content }"}, "P561", KEY),
        (
            {
                "chat_template": CHATML,
                "chat_template__tool_use": "{{ lipsum.__globals__['os'].popen('true').read() }}",
            },
            "P561",
            f"{KEY}.tool_use",
        ),
        (
            {"chat_template": "{% for i in range(10**9) %}{{ 'A' * 10**9 }}{% endfor %}"},
            "P562",
            KEY,
        ),
    ],
)
def test_a_file_with_a_bad_template_or_none(
    make_header: Callable[..., Header], strings: dict[str, Any], code: str, key: str
) -> None:
    with pytest.raises(PowerError) as caught:
        render_for_header(make_header(**strings), HELLO)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert f"`{key}`" in diagnostic.message
    assert "model.gguf" in str(diagnostic.place)
    assert caught.value.exit_code is ExitCode.CANNOT_JUDGE
