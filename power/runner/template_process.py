"""A process that renders one chat template and dies; nothing of ours trusts it.

Started as `python -m power.runner.template_process PARENT` by `power.runner.chat`.
It reads one JSON object from stdin and writes one to stdout: `{"text": ...}`, or
`{"fault": FAULT, "key": ..., "message": ..., "line": ...}`.

A template is a program from a file that nobody vouches for. Jinja2's immutable
sandbox keeps it from attributes and calls that lead out of it; the limits here
bound what it can use up, and stand even if the sandbox does not: no file, socket
or pipe can be opened, and nothing larger than the output limit can be written.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from power.runner.confine import confine
from power.runner.limits import TEMPLATE_CPU_S, TEMPLATE_MEMORY, TEMPLATE_TEXT

_MESSAGE_CHARS = 300
_FAILURES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What an expression of a template can raise, when it is compiled or rendered."""


class Fault(Exception):  # noqa: N818 - one of the ways a template ends, named by `kind`
    """kind: `syntax`, `unsafe`, `raised`, `failed`, `memory`, `output`."""

    def __init__(self, kind: str, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.line = line


class _Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; it renders as they are."""

    tags = {"generation"}  # noqa: RUF012 - Jinja2's name and type

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """Keep the block's body alone."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Raised(Exception):  # noqa: N818 - the template's own refusal
    """`raise_exception(message)` in a template."""


def make_environment() -> ImmutableSandboxedEnvironment:
    """The environment of Hugging Face's chat templates, without the clock.

    `strftime_now` is not there: a prompt that holds the date of the day is
    another prompt tomorrow. Templates that ask `strftime_now is defined` take
    their own fixed date.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, "jinja2.ext.loopcontrols"],
    )
    for name in ("lipsum", "cycler", "joiner"):  # no template needs them; each has led out before
        del environment.globals[name]
    environment.globals["raise_exception"] = _raise
    environment.filters["tojson"] = _tojson
    del environment.filters["random"]  # one conversation is one prompt, at every rendering
    return environment


def _raise(message: object) -> NoReturn:
    raise _Raised(str(message))


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    # Jinja2's own filter escapes < and > for HTML, which a prompt is not.
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def check_template(environment: jinja2.Environment, source: str) -> jinja2.Template:
    """The compiled template; raises Fault where it does not parse or reaches for internals."""
    try:
        tree = environment.parse(source)
        for node, name in _names(tree):
            internal = name.startswith("__" if isinstance(node, nodes.Name) else "_")
            if internal or name == "attr":
                raise Fault("unsafe", f"it reaches for `{name}`", node.lineno)
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise Fault("syntax", error.message or "it does not parse", error.lineno) from None
    except RecursionError:
        raise Fault("syntax", "it is nested too deeply") from None
    except _FAILURES as error:  # of a constant that Jinja2 works out while it compiles
        raise Fault("failed", _said(error)) from None


def _said(error: Exception) -> str:
    """What a failure is called; no file can be opened here, and none is named."""
    if isinstance(error, OSError):
        return "it needs a file or a module, and none can be opened"
    return f"{type(error).__name__}: {error}"


def _names(tree: nodes.Template) -> Iterator[tuple[nodes.Node, str]]:
    """Every attribute, constant subscript, filter and variable by name.

    A variable may begin with one underscore, as the `_` of a loop does; nothing else may.
    """
    for node in tree.find_all(
        (nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.Name, nodes.Import, nodes.FromImport)
    ):
        match node:
            case nodes.Getattr():
                yield node, node.attr
            case nodes.Getitem(arg=nodes.Const(value=str(name))):
                yield node, name
            case nodes.Filter() | nodes.Name():
                yield node, node.name
            case _:
                pass


def render(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
    """The rendered text; raises Fault where the template refuses, fails or goes on too long."""
    parts, size = [], 0
    try:
        for part in template.generate(**variables):
            size += len(part.encode("utf-8", "surrogatepass"))
            if size > TEMPLATE_TEXT:
                raise Fault("output", f"its text is longer than {TEMPLATE_TEXT} bytes")
            parts.append(part)
    except _Raised as error:
        raise Fault("raised", str(error)) from None
    except jinja2.TemplateError as error:
        raise Fault("failed", error.message or type(error).__name__) from None
    except MemoryError:
        raise Fault("memory", "it used up its memory") from None
    except RecursionError:
        raise Fault("failed", "it recurs too deeply") from None
    except _FAILURES as error:
        raise Fault("failed", _said(error)) from None
    return "".join(parts)


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Check every template of the file, then render the one that was asked for."""
    environment = make_environment()
    key = chosen = request["key"]
    try:
        compiled = {}
        for key, source in request["templates"].items():
            compiled[key] = check_template(environment, source)
        key = chosen
        return {"text": render(compiled[chosen], request["variables"])}
    except Fault as fault:
        return {
            "fault": fault.kind,
            "key": key,
            "message": fault.message[:_MESSAGE_CHARS],
            "line": fault.line,
        }
    except MemoryError:
        return {"fault": "memory", "key": key, "message": "it used up its memory", "line": None}


def _warm_up() -> None:
    """Import what Jinja2 and Python import late, while files can still be opened."""
    environment = make_environment()
    environment.from_string("{{ '\\n' | trim | tojson }}").render()  # codecs.unicode_escape
    environment.from_string("{{ '<a b>' | striptags | wordwrap(1) }}").render()  # html, textwrap
    with contextlib.suppress(jinja2.TemplateError):
        environment.from_string("{{ nothing.at_all }}").render()  # jinja2.debug


def _limit() -> None:
    reply = 6 * TEMPLATE_TEXT + 4096  # JSON escapes a byte as six at most
    for what, soft, hard in (
        (resource.RLIMIT_CPU, TEMPLATE_CPU_S, TEMPLATE_CPU_S + 1),
        (resource.RLIMIT_AS, TEMPLATE_MEMORY, TEMPLATE_MEMORY),
        (resource.RLIMIT_FSIZE, reply, reply),
        (resource.RLIMIT_NOFILE, 3, 3),
    ):
        resource.setrlimit(what, (soft, hard))


def main() -> None:
    """Take the request in, shut the door, render."""
    confine(int(sys.argv[1]))
    request = json.load(sys.stdin)
    _warm_up()
    _limit()
    os.write(1, json.dumps(answer(request), ensure_ascii=True).encode("ascii"))


if __name__ == "__main__":
    main()
