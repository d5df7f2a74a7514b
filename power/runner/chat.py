"""A conversation as a prompt, through the chat template that the model's file brings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from tempfile import TemporaryFile
from typing import IO, Any, NoReturn

from power.artifact.control import control_texts
from power.artifact.header import Header
from power.artifact.values import Strings
from power.diagnostics import fail
from power.runner.crash import excerpt
from power.runner.limits import (
    TEMPLATE_CPU_S,
    TEMPLATE_MEMORY,
    TEMPLATE_TEXT,
    TEMPLATE_WALL_S,
)
from power.runner.literal import Rendered, hide
from power.runner.spawn import child_environment, python_module

KEY = "tokenizer.chat_template"
"""The metadata key of the template that is used; KEY.NAME are named ones."""

MAX_TEMPLATE = 1024 * 1024
"""Characters of all templates of a file together."""

LOG_BYTES = 64 * 1024

_COMMAND = python_module("power.runner.template_process")


def render_for_header(header: Header, messages: Sequence[Mapping[str, Any]]) -> Rendered:
    """`messages` through the default template of the model with that header.

    Raises PowerError (exit 2): P560 when it has none, else as `render_chat`.
    """
    start = time.monotonic_ns()
    templates = chat_templates(header)
    if KEY not in templates:
        fail(
            "P560",
            f"the model has no chat template: there is no `{KEY}`",
            place=header.name,
            hint="run without `--chat` and write the prompt as the model expects it",
        )
    rendered = render_chat(
        templates[KEY],
        messages,
        bos=_special(header, "bos"),
        eos=_special(header, "eos"),
        others={key: text for key, text in templates.items() if key != KEY},
        control=control_texts(header),
        place=header.name,
    )
    return replace(rendered, spent_ns=time.monotonic_ns() - start)


def chat_templates(header: Header) -> dict[str, str]:
    """Metadata key -> source, the default template's and every named one's.

    Raises PowerError P561 when such a key holds no string.
    """
    found = {}
    for key in header.values:
        if key != KEY and not key.startswith(f"{KEY}."):
            continue
        text = header.text(key)
        if text is None:
            fail(
                "P561",
                f"`{key}` is no text",
                place=header.place(key),
                expected="string",
                found=header.values[key].shown,
                hint="fetch the model again from its source",
            )
        found[key] = text
    return found


def _special(header: Header, which: str) -> str:
    """The text of the BOS or EOS token; "" when the vocabulary names none."""
    token = header.integer(f"tokenizer.ggml.{which}_token_id")
    tokens = header.values.get("tokenizer.ggml.tokens")
    texts = None if tokens is None else tokens.data
    if token is None or not isinstance(texts, Strings) or not 0 <= token < len(texts):
        return ""
    return texts.text(token)


def render_chat(  # noqa: PLR0913 - what a template may use
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    bos: str,
    eos: str,
    key: str = KEY,
    others: Mapping[str, str] | None = None,
    control: Collection[str] = (),
    place: str | None = None,
) -> Rendered:
    """`messages` as a prompt that ends where the assistant is to speak.

    messages: objects with `role` and `content`, both text. bos, eos: texts of
    those tokens. others: the file's other templates by key. They are not used,
    but have to be harmless all the same: a file that carries one that is not is
    not trusted with its default one. control: texts of control tokens; where a
    message spells one, it stays plain. place: the file, for diagnostics.

    Rendering happens in a child process with limits on time, memory and output.
    Raises PowerError, exit 2: P561 for a template that does not parse or reaches
    for internals, P562 when it refuses the conversation or fails, P563 when it
    reaches a limit, P564 for messages of another form.
    """
    check_messages(messages)
    templates = {**(others or {}), key: template}
    where = place or key
    if sum(len(text) for text in templates.values()) > MAX_TEMPLATE:
        fail(
            "P561",
            f"`{key}` is too long",
            place=where,
            expected=f"at most {MAX_TEMPLATE} characters",
            hint="run without `--chat`",
        )
    hidden = hide(messages, control, templates.values())
    variables = {
        "messages": hidden.messages,
        "add_generation_prompt": True,
        "bos_token": bos,
        "eos_token": eos,
        "tools": None,
        "documents": None,
    }
    reply = _ask({"key": key, "templates": templates, "variables": variables}, key, where)
    if "text" in reply:
        return hidden.reveal(str(reply["text"]))
    return _fail_fault(reply, where)


def check_messages(messages: Sequence[Mapping[str, Any]], place: str | None = None) -> None:
    """Refuse (P564) anything but a non-empty list of `{"role": str, "content": str}`."""
    for index, message in enumerate(messages):
        if (
            not isinstance(message, Mapping)
            or set(message) != {"role", "content"}
            or not all(isinstance(value, str) for value in message.values())
            or not message["role"]
        ):
            fail(
                "P564",
                f"message {index + 1} is not of the form that a chat needs",
                place=place,
                expected='{"role": TEXT, "content": TEXT}',
                hint='give each message a `role` ("system", "user" or "assistant") and a `content`',
            )
    if not messages:
        fail("P564", "the conversation has no message", place=place, hint="give one")


def _ask(request: Mapping[str, Any], key: str, place: str) -> dict[str, Any]:
    """The template process's reply; where it made none, P563."""
    timed_out = False
    with TemporaryFile() as output, TemporaryFile() as log:
        child = subprocess.Popen(
            [*_COMMAND, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=log,
            env=child_environment(),
            start_new_session=True,
        )
        try:
            child.communicate(json.dumps(request).encode(), timeout=TEMPLATE_WALL_S)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            child.kill()
            status = child.wait()
        reply = _reply(output)
        if reply is not None:
            return reply
        log.seek(0)
        found = excerpt(log.read(LOG_BYTES)) or f"status {status}"
    if timed_out:
        found = f"more than {TEMPLATE_WALL_S:g} s"
    elif status == -signal.SIGXCPU:
        found = f"more than {TEMPLATE_CPU_S} s of processor time"
    return _fail_exhausted(key, place, found)


def _reply(output: IO[bytes]) -> dict[str, Any] | None:
    output.seek(0)
    try:
        reply = json.load(output)
    except ValueError:
        return None
    return reply if isinstance(reply, dict) else None


def _fail_exhausted(key: str, place: str, found: str) -> NoReturn:
    fail(
        "P563",
        f"the chat template `{key}` was stopped: it takes too much to render",
        place=place,
        expected=f"at most {TEMPLATE_CPU_S} s, {TEMPLATE_MEMORY >> 20} MiB of memory, "
        f"{TEMPLATE_TEXT >> 20} MiB of text",
        found=found,
        hint="do not use this file's template; run without `--chat`",
    )


def _fail_fault(reply: Mapping[str, Any], place: str) -> NoReturn:
    """What the template process found, as a diagnostic that names the key."""
    key, message, line = str(reply["key"]), str(reply["message"]), reply["line"]
    where = place if line is None else f"{place}: line {line} of the template"
    match reply["fault"]:
        case "syntax":
            fail(
                "P561",
                f"the chat template `{key}` does not parse",
                place=where,
                found=message,
                hint="run without `--chat`, or fetch the model again from its source",
            )
        case "unsafe":
            fail(
                "P561",
                f"the chat template `{key}` is not safe: {message}",
                place=where,
                hint="do not trust this file's templates; run without `--chat`",
            )
        case "raised":
            fail(
                "P562",
                f"the chat template `{key}` refuses the conversation",
                place=where,
                found=message,
                hint="change the roles or the order of the messages as it says",
            )
        case "memory" | "output":
            _fail_exhausted(key, place, message)
        case _:
            fail(
                "P562",
                f"the chat template `{key}` failed",
                place=where,
                found=message,
                hint="run without `--chat`, or report the template to the model's maker",
            )
