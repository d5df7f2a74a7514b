"""From pydantic's findings to diagnostics that a person can act on."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from power.diagnostics import Diagnostic, Span, escape
from power.manifest.expectation import expectation, keys_of, table_model
from power.manifest.model import SCHEMA, Speculation
from power.manifest.source import Source
from power.manifest.text_rules import MALFORMED

_MOST = 100  # problems of one file that are told in full
_SHOWN = 80  # characters of a value from a file
_USERINFO = re.compile(r"//[^/?#\s]*@")
_TOKEN = re.compile(r"(token=)[^&#\s]*")
_PLAIN = re.compile(r"[+-]?[0-9][0-9_]*(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false")
_NO_QUOTES = re.compile("integer|number|array|`true`")
# Spellings of strategies that older configurations used.
_LEGACY_MODES = {
    "none": "off",
    "false": "off",
    "true": "prompt-lookup",
    "lookup": "prompt-lookup",
    "context": "ngram-context",
    "draft": "draft-model",
    "multi-token-prediction": "mtp",
}
_TYPE_CODES = {
    "greater_than": "P115",
    "greater_than_equal": "P115",
    "less_than": "P115",
    "less_than_equal": "P115",
    "finite_number": "P115",
    "too_long": "P115",
    "too_short": "P115",
    "literal_error": "P116",
    MALFORMED: "P117",
    "missing": "P113",
    "extra_forbidden": "P112",
}


def diagnose(
    error: ValidationError, model: type[BaseModel], values: Mapping[str, Any], source: Source
) -> tuple[Diagnostic, ...]:
    """One diagnostic a finding, in the order of the file; union branches count once.

    The first `_MOST` are told in full, the others as a number.
    """
    findings: dict[tuple[str | int, ...], ErrorDetails] = {}
    for detail in error.errors(include_url=False):
        keys = tuple(real_keys(detail["loc"], values, missing=detail["type"] == "missing"))
        findings.setdefault(keys, detail)
    if _is_newer(values.get("schema")):  # what else such a file says is not ours to judge
        return (_schema(values["schema"], source),)
    order = sorted(findings, key=source.offset)
    found = [_one(findings[keys], keys, model, source) for keys in order[:_MOST]]
    if len(order) > _MOST:
        rest = f"{len(order) - _MOST} more problems in this {source.what} are not shown"
        found.append(
            Diagnostic(
                code=found[-1].code, message=rest, place=source.name, hint="mend these first"
            )
        )
    return tuple(found)


def real_keys(loc: Sequence[str | int], values: Any, *, missing: bool) -> Iterator[str | int]:
    """`loc` without pydantic's own marks (union branches, `[key]`)."""
    for index, part in enumerate(loc):
        try:
            values = values[part]
        except (LookupError, TypeError):
            if not missing or index < len(loc) - 1:
                continue
        yield part


def _one(
    detail: ErrorDetails, keys: tuple[str | int, ...], model: type[BaseModel], source: Source
) -> Diagnostic:
    kind = detail["type"]
    dotted = dotted_name(keys)
    if kind == "extra_forbidden":
        return _unknown_key(keys, model, source)
    if kind == "missing":
        return Diagnostic(
            code="P113",
            message=f"`{dotted}` is missing",
            spans=(source.span(*keys[:-1], at="key"),),
            expected=expectation(model, keys),
            hint=_missing_hint(keys),
        )
    if keys == ("schema",):
        return _schema(detail["input"], source)
    branches = expectation(model, keys)
    code, message = "P114", f"`{dotted}` has the wrong type"
    if kind in _TYPE_CODES and not (
        kind == "literal_error" and not isinstance(detail["input"], str)
    ):
        code = _TYPE_CODES[kind]
        message = f"`{dotted}` {_verb(kind)}"
    hint = None
    context = detail.get("ctx", {})
    if kind == MALFORMED:
        message, hint = f"`{dotted}` {context['message']}", context.get("hint")
    elif code == "P116":
        hint = _close_choice(str(detail["input"]), branches, keys)
    elif code == "P114":
        hint = _type_hint(detail["input"], branches)
    return Diagnostic(
        code=code,
        message=message,
        spans=(_public(source.span(*keys), detail["input"]),),
        expected=branches,
        found=shown(detail["input"]),
        hint=hint or _plain_hint(code, branches),
    )


def _plain_hint(code: str, expected: str | None) -> str:
    """The next action where nothing closer is known."""
    if code == "P116":
        return "choose one of the values listed, in that spelling"
    return f"write {expected}" if expected else "leave the key out, or see `power explain`"


def _verb(kind: str) -> str:
    if kind == "literal_error":
        return "is not one of the allowed values"
    if kind == "finite_number":
        return "is not a finite number"
    return "has the wrong length" if kind in {"too_long", "too_short"} else "is out of range"


def _is_newer(schema: object) -> bool:
    return isinstance(schema, int) and not isinstance(schema, bool) and schema > SCHEMA


def _schema(value: object, source: Source) -> Diagnostic:
    return Diagnostic(
        code="P118",
        message=f"this {source.what}'s schema is not one that this version reads",
        spans=(source.span("schema"),),
        expected=f"{SCHEMA}",
        found=shown(value),
        hint="install the version of power that it was written for"
        if _is_newer(value)
        else f"write `schema = {SCHEMA}`",
    )


def _unknown_key(keys: tuple[str | int, ...], model: type[BaseModel], source: Source) -> Diagnostic:
    key = str(keys[-1])
    table = dotted_name(keys[:-1])
    if len(keys) == 1 and key in Speculation.model_fields:
        return Diagnostic(
            code="P119",
            message=f"`{key}` stands at the top level",
            spans=(source.span(*keys, at="key"),),
            expected=f"`{key}` in `[speculation]`",
            hint="put the line `[speculation]` above the `spec_` keys",
        )
    known = keys_of(model, keys[:-1])
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    hint = f"did you mean `{close[0]}`?" if close else _other_section(key, model)
    return Diagnostic(
        code="P112",
        message=f"unknown key `{escape(key, _SHOWN)}`" + (f" in `[{table}]`" if table else ""),
        spans=(source.span(*keys, at="key"),),
        expected=("one of " + ", ".join(f"`{k}`" for k in known)) if known else None,
        hint=hint,
    )


def _other_section(key: str, model: type[BaseModel]) -> str:
    for name in model.model_fields:
        section = table_model(model.model_fields[name].annotation)
        if section is not None and key in section.model_fields:
            return f"`{key}` belongs in `[{name}]`"
    return "remove it: a key that nothing reads would only seem to do something"


def _missing_hint(keys: tuple[str | int, ...]) -> str:
    if keys[-1] in {"sha256", "target_sha256"}:
        return "`sha256sum FILE` prints it; `power init` fills it in"
    if keys[-1] == "bytes":
        return "`stat -c %s FILE` prints it; `power init` fills it in"
    return f"add `[{keys[-1]}]`" if keys == ("target",) else f"add `{keys[-1]} = …`"


def _close_choice(value: str, branches: str | None, keys: tuple[str | int, ...]) -> str | None:
    choices = [part.strip("` ") for part in (branches or "").removeprefix("one of ").split(", ")]
    if keys[-1] == "spec_mode":
        spelled = value.strip().lower().replace("_", "-")
        spelled = _LEGACY_MODES.get(spelled, spelled)
        if spelled in choices:
            return f"did you mean `{spelled}`?"
    close = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.5)
    return f"did you mean `{close[0]}`?" if close else None


def _type_hint(value: object, expected: str | None) -> str | None:
    text = expected or ""
    hint = None
    if isinstance(value, str) and text.endswith("`all`") and not value.isdecimal():
        hint = 'write a count without quotes, or `"all"`'
    elif isinstance(value, float) and value.is_integer() and "integer" in text:
        hint = f"write `{int(value)}`, without a point"
    elif isinstance(value, str) and any(w in text for w in ("integer", "number", "`true`")):
        plain = _PLAIN.fullmatch(value.strip())
        hint = "write it without quotes" if plain else f"write {text}"
    elif isinstance(value, bool) and "`on`" in text:
        hint = f'write `"{"on" if value else "off"}"`'
    elif "table" in text:
        hint = "write it as a table, under a line of its name in brackets"
    elif not isinstance(value, str | dict | list) and not _NO_QUOTES.search(text):
        hint = "write it in quotes"
    return hint


# --- values and keys as text ---------------------------------------------------


def dotted_name(keys: Sequence[str | int]) -> str:
    """`("target", "shards", 1, "path")` as `target.shards[1].path`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f"{'.' if text else ''}{key}"
    return escape(text, 2 * _SHOWN)


def _concealed(text: str) -> str:
    """`text` without the credentials that a URL in it may carry."""
    return _TOKEN.sub(r"\1…", _USERINFO.sub("//…@", text))


def _public(span: Span, value: object) -> Span:
    """`span` with the value's line ending in what may be shown of it."""
    if not isinstance(value, str) or _concealed(value) == value:
        return span
    text = shown(value)
    return replace(span, source=span.source[: span.column - 1] + text, width=len(text))


def shown(value: object) -> str:
    """A TOML value with its type, short."""
    if isinstance(value, bool):
        return f"{str(value).lower()} (a boolean)"
    if isinstance(value, int):
        digits = str(value) if abs(value) < 10**30 else "a number of more than 30 digits"
        return f"{digits} (an integer)"
    if isinstance(value, float):
        return f"{value!r} (a float)"
    if isinstance(value, str):
        return f'"{escape(_concealed(value), _SHOWN)}"'
    if isinstance(value, dict):
        return "a table"
    return "an array" if isinstance(value, list | tuple) else f"{value} (a {type(value).__name__})"
