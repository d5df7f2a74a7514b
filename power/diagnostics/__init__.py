"""Everything a person is told when Power cannot or will not go on.

A `Diagnostic` is one finding with a code; a `PowerError` carries one or more of
them to the edge of the program, where `render` prints them and the registry
(`codes.toml`) decides the exit code.
"""

from power.diagnostics.codes import CODES, Code, ExitCode, explain
from power.diagnostics.model import Diagnostic, PowerError, Span, fail
from power.diagnostics.render import as_github, as_json, as_text, counted, escape, first_line

__all__ = [
    "CODES",
    "Code",
    "Diagnostic",
    "ExitCode",
    "PowerError",
    "Span",
    "as_github",
    "as_json",
    "as_text",
    "counted",
    "escape",
    "explain",
    "fail",
    "first_line",
]
