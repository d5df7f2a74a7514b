"""Split GGUFs: which files belong together, and their headers as one.

llama.cpp finds the shards of a model by name, PREFIX-00001-of-00003.gguf, and
counts `split.no` from 0. Source: llama.cpp, `llama_split_path` and
`llama_model_loader`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from power.artifact.findings import Findings
from power.artifact.header import Header
from power.diagnostics import fail

SHARD_LIMIT = 1000
_NAME = re.compile(r"(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def sibling_names(name: str, header: Header) -> list[str]:
    """The paths of the shards after the first, beside `name`; empty for a whole model.

    Raises PowerError P211 when `split.count` and the file's name do not agree.
    """
    count = split_count(header)
    if count <= 1:
        return []
    match = _NAME.fullmatch(name)
    if match is None or int(match["count"]) != count:
        fail(
            "P211",
            f"`split.count` is {count}, but the name of the file does not say so",
            place=header.place("split.count"),
            expected=f"a name ending in `-00001-of-{count:05}.gguf`",
            found=name,
            hint="keep the names that the split model was published with; shards are merged "
            "with `llama-gguf-split --merge`, not with cat",
        )
    if int(match["number"]) != 1:
        fail(
            "P211",
            f"`{name}` is not the first shard",
            place=header.place("split.no"),
            expected=f"{match['prefix']}-00001-of-{count:05}.gguf",
            found=name,
            hint="name the first shard: the others are found beside it",
        )
    return [f"{match['prefix']}-{number:05}-of-{count:05}.gguf" for number in range(2, count + 1)]


def check_shard_names(path: str, shards: Sequence[str]) -> None:
    """Raise P211 unless `shards`, as declared, begin with `path` and follow the naming rule."""
    match = _NAME.fullmatch(shards[0])
    prefix = match["prefix"] if match else "PREFIX"
    expected = [f"{prefix}-{n:05}-of-{len(shards):05}.gguf" for n in range(1, len(shards) + 1)]
    if path != shards[0] or list(shards) != expected:
        wrong = next((s for s, e in zip(shards, expected, strict=True) if s != e), path)
        fail(
            "P211",
            f"`{wrong}` does not fit the declared shards",
            expected=", ".join(expected[:3]) + (", …" if len(expected) > 3 else ""),  # noqa: PLR2004
            found=", ".join(list(shards)[:3]),
            hint="declare every shard in order; the artifact's path is the first of them",
        )


def split_count(header: Header) -> int:
    """`split.count`, 1 when absent. Raises P211 when it is no sensible number."""
    if "split.count" not in header.values:
        return 1
    count = header.integer("split.count")
    if count is None or not 0 <= count <= SHARD_LIMIT:
        fail(
            "P211",
            f"`split.count` is {header.values['split.count'].data}",
            place=header.place("split.count"),
            expected=f"an integer up to {SHARD_LIMIT}",
            found=header.values["split.count"].data,
            hint="the file is damaged or was made by hand: download it again",
        )
    return count


def merge(headers: Sequence[Header]) -> Header:
    """One header of all shards, the first one's metadata and everyone's tensors.

    Raises PowerError P211 with everything that does not fit together.
    """
    first = headers[0]
    if len(headers) == 1 and split_count(first) <= 1:
        return first
    findings = Findings()
    tensors = dict(first.tensors)
    for index, header in enumerate(headers):
        _check_numbering(findings, header, index, len(headers))
        for name, tensor in header.tensors.items():
            if index and name in tensors:
                findings.add(
                    "P211",
                    f"tensor `{name}` is in two shards",
                    place=f"{tensor.file}: {name} at byte {tensor.at}",
                    expected="each tensor once",
                    found=f"also in {tensors[name].file}",
                    hint="download the shards again: one of them is another file",
                )
            tensors.setdefault(name, tensor)
    total = first.integer("split.tensors.count")
    if total is not None and total != sum(len(header.tensors) for header in headers):
        findings.add(
            "P211",
            f"`split.tensors.count` is {total}, but the shards hold "
            f"{sum(len(header.tensors) for header in headers)} tensors",
            place=first.place("split.tensors.count"),
            expected=total,
            found=sum(len(header.tensors) for header in headers),
            hint="download the shards again: one of them belongs to another model",
        )
    findings.raise_any()
    contents = {key: data for header in headers for key, data in header.contents.items()}
    size = sum(header.size for header in headers)
    return replace(first, size=size, tensors=tensors, contents=contents, files=len(headers))


def _check_numbering(findings: Findings, header: Header, index: int, count: int) -> None:
    for key, expected in (("split.no", index), ("split.count", count)):
        found = header.integer(key)
        if found != expected:
            findings.add(
                "P211",
                f"`{key}` of `{header.name}` is {'missing' if found is None else found}",
                place=header.place(key),
                expected=expected,
                found="nothing" if found is None else found,
                hint="download the shards again: one of them is another file",
            )
