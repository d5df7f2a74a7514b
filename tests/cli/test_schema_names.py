"""The `schema` of `--format json` follows one rule: the words of the command, joined by `-`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click
import pytest

from power.cli.app import app
from tests.cli.conftest import Bench


def commands(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        elif any(option.name == "fmt" for option in command.params):
            yield "-".join((*words, name)), command


def test_every_verb_is_named_by_its_words() -> None:
    named = {}
    for words, command in commands(app):
        assert command.callback is not None
        source = inspect.getsource(inspect.unwrap(command.callback))
        named[words] = re.findall(r'Verb\(\s*"([\w-]+)"', source)
    assert named == {words: [words] for words in named}


@pytest.mark.parametrize(
    ("command", "schema"),
    [
        ("key new --kind x", "power.key-new.v1"),
        ("key nothing", "power.key.v1"),
        ("compile --loud x", "power.compile.v1"),
        ("nothing", "power.usage.v1"),
    ],
)
def test_a_usage_error_has_the_name_of_what_was_understood(
    bench: Bench, command: str, schema: str
) -> None:
    done = bench(*command.split(), "--format", "json")
    assert (done.code, done.json["schema"]) == (2, schema)
