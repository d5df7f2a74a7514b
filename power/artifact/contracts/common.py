"""What the draft contracts share: telling kinds apart, the target's side, and the draft's head."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from power.artifact.architectures import LAYER_INPUT_AFTER_LAST, LAYER_INPUTS
from power.artifact.comparison import compare
from power.artifact.contracts import provenance
from power.artifact.contracts.ranked import TABLE, bad_table, check_ids
from power.artifact.dimensions import Dimensions, read_dimensions
from power.artifact.facts import HeaderFacts
from power.artifact.findings import Findings
from power.artifact.header import Header
from power.artifact.layouts import Layout, check_storage, check_tensors, require_sizes
from power.artifact.reader import Reader
from power.artifact.target import check_general_type, facts_of
from power.artifact.values import ValueType
from power.artifact.vocabulary import Vocabulary, read_vocabulary

KINDS = ("draft-model", "mtp", "eagle3", "dflash", "dflash2", "dspark")
NATIVE_TABLE = "mtp-head"
"""`general.architecture` of a file that is nothing but the `d2t` table of a native head."""

DIMENSION_KEYS = frozenset(
    """
    context_length embedding_length block_count feed_forward_length vocab_size
    attention.head_count attention.head_count_kv attention.key_length attention.value_length
    attention.layer_norm_rms_epsilon rope.freq_base rope.dimension_count rope.dimension_sections
    rope.scaling.type rope.scaling.factor rope.scaling.original_context_length
    rope.scaling.attn_factor rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow
    rope.scaling.finetuned target_layers
    """.split()  # noqa: SIM905 - a table of names reads better than a list of quotes
)
"""Keys below `<architecture>.` that every feature draft may have."""


def detect_kind(header: Header) -> str:
    """The kind of draft that the file is; `draft-model` for a whole model of its own.

    DFlash, DFlash2 and DSpark share `general.architecture`: tensors tell them apart.
    """
    architecture = header.text("general.architecture") or ""
    if architecture != "dflash":
        return {"eagle3": "eagle3", NATIVE_TABLE: "mtp"}.get(architecture, "draft-model")
    if "markov_w1.weight" in header.tensors:
        return "dspark"
    if "selector_hidden.weight" in header.tensors or "dflash.selector_top_k" in header.values:
        return "dflash2"
    return "dflash"


@dataclass(frozen=True, slots=True)
class Target:
    """The target's side of a pair."""

    name: str
    dimensions: Dimensions
    vocabulary: Vocabulary

    @property
    def trunk(self) -> int:
        """Blocks of the model proper, without native prediction blocks."""
        return self.dimensions.layers - self.dimensions.nextn


def target_of(header: Header) -> Target:
    """Read the target's side; raises PowerError P30x or P31x when it is unusable."""
    findings = Findings()
    reader = Reader(header, findings)
    architecture = reader.text("general.architecture", required=True) or ""
    findings.raise_any()
    dimensions = read_dimensions(reader, architecture)
    vocabulary = read_vocabulary(reader)
    findings.raise_any()
    assert dimensions is not None, "no dimensions without a finding"  # noqa: S101
    assert vocabulary is not None, "no vocabulary without a finding"  # noqa: S101
    return Target(header.name, dimensions, vocabulary)


class FeatureDraft:
    """A draft head that reads the target's inner layers, while it is judged.

    `target` is None when the file is judged alone. Checks add findings and go on,
    so that one reading names everything.
    """

    def __init__(self, header: Header, target: Target | None, architecture: str) -> None:
        self.header = header
        self.target = target
        self.prefix = f"{architecture}."
        self.findings = Findings()
        self.reader = Reader(header, self.findings)
        check_general_type(self.reader)
        require_sizes(self.reader, architecture)
        self.dimensions = read_dimensions(self.reader, architecture)
        self._check_uniform()
        self.vocabulary = read_vocabulary(self.reader)
        self.layers = self.reader.integers(self.prefix + "target_layers", required=True)

    @property
    def head_rows(self) -> int | None:
        """Rows of the draft's own reduced head (`d2t`); None when it has the full vocabulary."""
        tensor = self.header.tensors.get(TABLE)
        return tensor.shape[0] if tensor is not None else None

    def _check_uniform(self) -> None:
        """Find sizes that differ by layer: no shape could be checked."""
        if self.dimensions is None or self.dimensions.uniform:
            return
        for name in ("feed_forward_length", "attention.head_count", "attention.head_count_kv"):
            value = self.header.values.get(self.prefix + name)
            if value is not None and value.type is ValueType.ARRAY:
                self.reader.out_of_range(
                    self.prefix + name,
                    f"`{self.prefix}{name}` differs by layer",
                    expected="one number",
                    found=value.shown,
                )

    def check_keys(self, allowed: Collection[str]) -> None:
        """Find keys that the kind does not define: they change the graph in ways not proved."""
        for key in self.header.values:
            name = key.removeprefix(self.prefix)
            if key.startswith(self.prefix) and name not in allowed and name not in DIMENSION_KEYS:
                self.reader.out_of_range(
                    key,
                    f"`{key}` is a key that this kind of draft does not define",
                    expected="only the keys of the contract",
                    found=name,
                )

    def check_layers(self, exactly: int | None = None) -> None:
        """Check `target_layers`: input numbers of target blocks, as the target offers them."""
        key = self.prefix + "target_layers"
        if self.layers is None:
            return
        wanted = str(exactly) if exactly is not None else "1 or more"
        if not self.layers or (exactly is not None and len(self.layers) != exactly):
            self.reader.out_of_range(
                key,
                f"`{key}` names {len(self.layers)} layers",
                expected=f"{wanted} layers",
                found=self.layers,
            )
        if self.target is None:
            return
        architecture = self.target.dimensions.architecture
        if architecture not in LAYER_INPUTS:
            self.findings.add(
                "P332",
                f"a `{architecture}` target does not expose the inputs of its layers",
                place=self.target.name,
                expected=", ".join(sorted(LAYER_INPUTS)),
                found=architecture,
                hint="use prompt-lookup or a draft-model with this target",
            )
        last = self.target.trunk - (architecture not in LAYER_INPUT_AFTER_LAST)
        wrong = [layer for layer in self.layers if not 0 <= layer <= last]
        if wrong:
            self.findings.add(
                "P331",
                f"`{key}` names layer {wrong[0]}, which the target does not have",
                place=self.header.place(key),
                expected=f"0 to {last}",
                found=self.layers,
                hint="use a draft that was made for this target",
            )

    def check_width(self, key: str, width: int | None) -> None:
        """Check that `width`, the value of `key`, is the target's embedding length."""
        if self.target is None or width is None or width == self.target.dimensions.width:
            return
        self.findings.add(
            "P331",
            f"`{key}` is {width}, the target's width {self.target.dimensions.width}",
            place=self.header.place(key),
            expected=self.target.dimensions.width,
            found=width,
            hint="use a draft that was made for this target",
        )

    def check_reduced_head(self) -> None:
        """Check `d2t`: I64, different ids inside the vocabulary, and a head with as many rows."""
        provenance.check(self.reader)
        tensor = self.header.tensors.get(TABLE)
        if tensor is None:
            return
        check_ids(self.findings, self.header, self._vocabulary_size())
        rows = tensor.shape[0]
        output = self.header.tensors.get("output.weight")
        if output is None or output.shape[-1] != rows:
            bad_table(
                self.findings,
                self.header,
                f"`d2t` has {rows} ids, but the head is another",
                expected=f"{rows} rows",
                found="no `output.weight`" if output is None else f"{output.shape[-1]} rows",
            )

    def check_tensors(self, required: Layout, optional: Layout) -> None:
        """Check shapes, and that the file holds nothing else (P307)."""
        check_tensors(self.findings, self.header, required, optional)
        check_storage(self.findings, self.header)
        for name, tensor in self.header.tensors.items():
            if name not in required and name not in optional:
                self.findings.add(
                    "P307",
                    f"tensor `{name}` does not belong to this kind of draft",
                    place=f"{tensor.file}: {name} at byte {tensor.at}",
                    expected="only the tensors of the contract",
                    found=name,
                    hint="the file may be another kind of draft, or made for another engine",
                )

    def check_vocabulary(self) -> tuple[str, ...]:
        """Compare with the target's vocabulary; `mask` is the draft's own. Returns notes."""
        if self.target is None or self.vocabulary is None:
            return ()
        return compare(self.findings, self.vocabulary, self.target.vocabulary, ("mask",))

    def finish(self) -> HeaderFacts:
        """Raise everything found, or return the facts."""
        self.findings.raise_any()
        assert self.dimensions is not None, "no dimensions without a finding"  # noqa: S101
        assert self.vocabulary is not None, "no vocabulary without a finding"  # noqa: S101
        return facts_of(self.header, self.dimensions, self.vocabulary)

    def _vocabulary_size(self) -> int | None:
        if self.target is not None:
            return len(self.target.vocabulary)
        return len(self.vocabulary) if self.vocabulary is not None else None


def shared_head(vocabulary: int, width: int, rows: int | None) -> Mapping[str, tuple[int, ...]]:
    """Embeddings and head, which a draft may have of its own or borrow from the target."""
    out: Layout = {
        "token_embd.weight": (width, vocabulary),
        "output.weight": (width, vocabulary if rows is None else rows),
    }
    return out if rows is None else out | {"d2t": (rows,)}
