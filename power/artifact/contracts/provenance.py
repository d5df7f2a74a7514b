"""Where a reduced head came from, as `tools/build_compact_head.py` writes it into the file.

The keys are optional. A file that has one has all of them, and they are about the
table that it holds.
"""

from __future__ import annotations

import hashlib

from power.artifact.reader import Reader

PREFIX = "power.compact_head."
TOOL, SOURCE, CORPUS, COUNTS, TABLE = (
    f"{PREFIX}{name}"
    for name in ("tool", "source_sha256", "corpus_sha256", "counts_sha256", "d2t_sha256")
)
"""Tool and version; digests of the draft it was made from, of the corpus, of the counts
(decimal `id count` lines, most frequent first) and of the `d2t` table (its raw bytes)."""

KEYS = (TOOL, SOURCE, CORPUS, COUNTS, TABLE)
_HEX = frozenset("0123456789abcdef")
_DIGEST = 64


def check(reader: Reader) -> None:
    """Find keys that are not these, are not all there, or are about another table."""
    header = reader.header
    if not any(key.startswith(PREFIX) for key in header.values):
        return
    for key in header.values:
        if key.startswith(PREFIX) and key not in KEYS:
            reader.out_of_range(
                key, f"`{key}` is no key of a compact head", expected=", ".join(KEYS), found=key
            )
    found = {key: reader.text(key, required=True) for key in KEYS}
    for key, text in found.items():
        wrong = text is not None and (len(text) != _DIGEST or not _HEX.issuperset(text))
        if key != TOOL and wrong:
            reader.out_of_range(
                key, f"`{key}` is no SHA-256", expected="64 lower-case digits", found=text
            )
    table = header.contents.get("d2t")
    own = None if table is None else hashlib.sha256(table).hexdigest()
    if found[TABLE] is not None and found[TABLE] != own:
        reader.out_of_range(
            TABLE,
            f"`{TABLE}` is not the digest of the file's `d2t`",
            expected=own or "no key: the file has no `d2t`",
            found=found[TABLE],
        )
