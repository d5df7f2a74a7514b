"""Jinja2 over the shipped templates, with filters that keep values from becoming markup."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import tomli_w
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from power.diagnostics import escape
from power.manifest.shipped import shipped


def render(template: str, values: Mapping[str, Any]) -> str:
    """The shipped template of that file name, filled in. A missing value is an error."""
    return _environment().get_template(template).render(values)


def render_html(template: str, values: Mapping[str, Any]) -> str:
    """The shipped HTML template of that file name, filled in; every value is escaped."""
    return _html().get_template(template).render(values)


@cache
def _html() -> Environment:
    return _environment().overlay(autoescape=True)


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701 - TOML and Markdown: each value goes through a filter
        loader=FileSystemLoader(shipped("templates")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["toml"] = toml_value
    environment.filters["code"] = markdown_code
    environment.filters["cell"] = markdown_cell
    return environment


def toml_value(value: object) -> str:
    """A value as TOML spells it."""
    return tomli_w.dumps({"v": value}).removeprefix("v = ").rstrip("\n")


def markdown_code(text: str) -> str:
    """Text as a code span, in which no character is markup, a mention or a link.

    The span's fence is longer than any run of backticks inside. Not for tables,
    where a `|` would end a cell even here. Source: CommonMark 0.31, 6.1.
    """
    shown = escape(text) or " "
    runs = (len(run) for run in re.findall("`+", shown))
    fence = "`" * (max(runs, default=0) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def markdown_cell(text: str) -> str:
    """Text for a cell of a Markdown table, in which no character is markup, a mention or a link.

    Character references are never markup. Source: CommonMark 0.31, 2.5; GFM 0.29, 6.9.
    """
    return re.sub(r"[\\`*_{}\[\]<>#!|~@&/]|w(?=ww\.)", lambda c: f"&#{ord(c[0])};", escape(text))
