"""Give a draft head a smaller vocabulary: the tokens that a corpus uses most.

    python -m tools.build_compact_head DRAFT OUT --rows N (--text CORPUS | --ids CORPUS.jsonl)
                                       [--target TARGET]

DRAFT is an EAGLE-3, DFlash or DSpark GGUF with the full vocabulary. OUT is the
same head with N rows and a `d2t` table that names the token of each: ordered by
frequency, the lower id first where two are as frequent, and with the tokens that
end or shape a text forced in from the tail. Rows are taken as they are stored, a
quantised head stays as it is quantised. A draft that borrows the target's head
gets rows of its own; --target is where they come from.

DRAFT may also be a model with a native MTP block. OUT is then the table alone, a
`[draft]` of kind `mtp`: the rows stay where they are, in the model.

The corpus is a text, which the engine tokenises in a process of its own, or
JSON lines, each an array of token ids. The same input gives the same bytes. OUT
says what it was made from (`power.compact_head.*`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from power.artifact.contracts import provenance
from power.artifact.contracts.common import NATIVE_TABLE, detect_kind
from power.artifact.contracts.pair import check_pair, draft_facts
from power.artifact.contracts.ranked import TABLE
from power.artifact.header import Header
from power.artifact.opened import OpenArtifact
from power.artifact.vocabulary import vocabulary_of
from power.diagnostics import PowerError, as_text

TOOL = "build_compact_head 1"
KINDS = ("dflash", "dspark", "eagle3")
NATIVE = "a model with a native MTP block"
FORCED = ("bos", "eos", "eot", "eom")  # and whatever else ends generation
HEAD, SHARED = "output.weight", "token_embd.weight"
MARKOV = "markov_w2.weight"  # of DSpark: one row a row of the head

Rows = npt.NDArray[Any]


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """Why no head is built."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Counts by token id, and the digest of the file they come from."""

    counts: Mapping[int, int]
    sha256: str


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def count_text(text: Path, model: Path) -> Corpus:
    """Counts of a text, tokenised with the vocabulary of `model`, in a child process."""
    command = [sys.executable, "-m", "tools.count_tokens", str(model), str(text)]
    child = subprocess.run(
        command, capture_output=True, check=False, cwd=Path(__file__).parent.parent
    )
    if child.returncode != 0:
        raise Refusal(f"the text could not be tokenised:\n{child.stderr.decode()}")
    counts = {int(token): number for token, number in json.loads(child.stdout).items()}
    return Corpus(counts, sha256_of(text))


def count_ids(path: Path) -> Corpus:
    """Counts of JSON lines, each an array of token ids."""
    counts: Counter[int] = Counter()
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                ids = json.loads(line)
            except ValueError as error:
                raise Refusal(f"{path.name}:{number}: {error}") from error
            if not isinstance(ids, list) or not all(type(token) is int for token in ids):
                raise Refusal(f"{path.name}:{number}: no array of token ids")
            counts.update(ids)
    return Corpus(counts, sha256_of(path))


def ranked(counts: Mapping[int, int], size: int, rows: int, forced: frozenset[int]) -> list[int]:
    """The `rows` token ids of a head over a vocabulary of `size`, most frequent first.

    Tokens that never occur fill up by id. Of those that did not make it, forced
    ones take the places of the least frequent that are not forced.
    """
    if strange := sorted(token for token in counts if not 0 <= token < size):
        raise Refusal(f"the corpus has token {strange[0]}, the vocabulary {size} tokens")
    if not max(1, len(forced)) <= rows < size:
        low = max(1, len(forced))
        raise Refusal(f"{rows} rows of a vocabulary of {size}: give {low} to {size - 1}")
    order = sorted(range(size), key=lambda token: (-counts.get(token, 0), token))
    kept, late = order[:rows], [token for token in order[rows:] if token in forced]
    while late:
        place = max(i for i, token in enumerate(kept) if token not in forced)
        del kept[place]
        kept.append(late.pop(0))
    return kept


def forced_ids(header: Header) -> frozenset[int]:
    """What must stay proposable, whatever the corpus holds."""
    vocabulary = vocabulary_of(header)
    stated = {vocabulary.special[name] for name in FORCED if name in vocabulary.special}
    return vocabulary.eog | stated


def counts_sha256(counts: Mapping[int, int]) -> str:
    """Digest of decimal `id count` lines, most frequent first."""
    order = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    lines = "".join(f"{token} {number}\n" for token, number in order)
    return hashlib.sha256(lines.encode()).hexdigest()


def build(draft: Path, out: Path, corpus: Corpus, rows: int, target: Path | None = None) -> int:
    """Write `out` and return how many of the corpus' tokens it covers.

    draft: a head, or a model whose own block is the draft.
    Raises Refusal, and PowerError where `draft` or the result breaks its contract.
    """
    header, kind = _checked(draft, target)
    if kind not in (*KINDS, "mtp"):
        what = f"{', '.join(KINDS)} or {NATIVE}"
        raise Refusal(f"a `{kind}` file has no head that could be reduced: give {what}")
    if TABLE in header.tensors:
        raise Refusal("the draft has a reduced head already: start from the one it was made from")
    ids = ranked(corpus.counts, len(vocabulary_of(header)), rows, forced_ids(header))
    table = np.array(ids, "<i8")
    notes = {
        provenance.TOOL: TOOL,
        provenance.SOURCE: sha256_of(draft),
        provenance.CORPUS: corpus.sha256,
        provenance.COUNTS: counts_sha256(corpus.counts),
        provenance.TABLE: hashlib.sha256(table.tobytes()).hexdigest(),
    }
    part = out.with_name(out.name + ".part")
    try:
        if kind == "mtp":
            _write_table(part, notes, table)
            _checked(part, draft)
        else:
            _write(part, gguf.GGUFReader(draft), notes, table, target)
            _checked(part, target)
        os.link(part, out)  # never over a file that is there
    finally:
        part.unlink(missing_ok=True)
    return sum(corpus.counts.get(token, 0) for token in ids)


def _checked(draft: Path, target: Path | None) -> tuple[Header, str]:
    """The header and kind of a file that fulfils its contract."""
    with OpenArtifact.open(draft.name, [draft.parent]) as opened:
        header = opened.header
    kind = detect_kind(header)
    if kind == "draft-model" and target is None:
        check_pair("mtp", header, header)
        return header, "mtp"
    draft_facts(kind, header)
    if target is not None:
        with OpenArtifact.open(target.name, [target.parent]) as other:
            check_pair(kind, header, other.header)
    return header, kind


def _write(
    path: Path,
    draft: gguf.GGUFReader,
    notes: Mapping[str, str],
    table: npt.NDArray[np.int64],
    target: Path | None,
) -> None:
    writer = gguf.GGUFWriter(path, draft.fields["general.architecture"].contents())
    for name, field in draft.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind, items = field.types[0], field.types[-1] if len(field.types) > 1 else None
        writer.add_key_value(name, field.contents(), kind, items)
    _finish(writer, notes, _tensors(draft, table, target))


def _write_table(path: Path, notes: Mapping[str, str], table: npt.NDArray[np.int64]) -> None:
    ids = (TABLE, table, gguf.GGMLQuantizationType.I64)
    _finish(gguf.GGUFWriter(path, NATIVE_TABLE), notes, [ids])


def _finish(
    writer: gguf.GGUFWriter,
    notes: Mapping[str, str],
    tensors: Iterable[tuple[str, Rows, gguf.GGMLQuantizationType]],
) -> None:
    for name, text in notes.items():
        writer.add_string(name, text)
    for name, data, stored in tensors:
        writer.add_tensor(name, data, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensors(
    draft: gguf.GGUFReader, table: npt.NDArray[np.int64], target: Path | None
) -> Iterator[tuple[str, Rows, gguf.GGMLQuantizationType]]:
    """Every tensor of the new file: those of the draft, of the head only the rows of `table`."""
    own = {tensor.name: tensor for tensor in draft.tensors}
    for tensor in draft.tensors:
        if tensor.name == MARKOV:
            yield tensor.name, tensor.data[table], tensor.tensor_type
        elif tensor.name != HEAD:
            yield tensor.name, tensor.data, tensor.tensor_type
    head = own[HEAD] if HEAD in own else _borrowed(target)
    yield HEAD, head.data[table], head.tensor_type
    yield TABLE, table, gguf.GGMLQuantizationType.I64


def _borrowed(target: Path | None) -> gguf.ReaderTensor:
    if target is None:
        raise Refusal("the draft borrows its head from the target: give it with --target")
    found = {tensor.name: tensor for tensor in gguf.GGUFReader(target).tensors}
    return found[HEAD] if HEAD in found else found[SHARED]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("draft", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--target", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", type=Path)
    source.add_argument("--ids", type=Path)
    options = parser.parse_args(arguments)
    try:
        corpus = count_text(options.text, options.draft) if options.text else count_ids(options.ids)
        covered = build(options.draft, options.out, corpus, options.rows, options.target)
    except PowerError as error:
        print(as_text(error.diagnostics), file=sys.stderr)
        return 2
    except (Refusal, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    total = sum(corpus.counts.values())
    share = f"{covered / total:.1%} of the corpus" if total else "an empty corpus"
    print(f"{options.out}: {options.rows} rows, {share}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
