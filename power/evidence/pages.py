"""Whatever report a file holds, as a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from power.evidence.files import parse, read_bytes
from power.evidence.quality_report import SCHEMA, Matrix
from power.evidence.quality_view import matrix_html, matrix_markdown
from power.evidence.report import Report
from power.evidence.view import report_html, report_markdown
from power.receipt.digests import sha256


@dataclass(frozen=True, slots=True)
class Page:
    """A report, and what makes a page of it."""

    report: Report | Matrix
    markdown: Callable[[], str]
    html: Callable[[], str]


def read_page(path: Path) -> Page:
    """The report of a bench or the quality matrix at `path`; raises PowerError P801."""
    data = read_bytes(path)
    digest, name = sha256(data), str(path)
    if is_matrix(data):
        matrix = parse(data, name, Matrix)
        return Page(
            matrix, partial(matrix_markdown, matrix, digest), partial(matrix_html, matrix, digest)
        )
    report = parse(data, name, Report)
    return Page(
        report, partial(report_markdown, report, digest), partial(report_html, report, digest)
    )


def is_matrix(data: bytes) -> bool:
    """Whether a document says that it is a quality matrix: Power writes the schema first."""
    return f'"{SCHEMA}"'.encode() in data[:64]
