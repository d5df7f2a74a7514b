"""Whether a GGUF is a complete text model that the engine can load and run."""

from __future__ import annotations

import hashlib

from power.artifact.architectures import DECODERS, EQUAL_HEADS, NOT_DECODERS, RECURRENT
from power.artifact.dimensions import Dimensions, read_dimensions
from power.artifact.facts import HeaderFacts
from power.artifact.findings import Findings
from power.artifact.ggml import FILE_TYPES
from power.artifact.header import Header
from power.artifact.layouts import KNOWN_ARCHITECTURES, check_model_tensors, known_tensors
from power.artifact.reader import Reader
from power.artifact.vocabulary import Vocabulary, read_vocabulary

CHAT_TEMPLATE = "tokenizer.chat_template"


def check_target(header: Header) -> HeaderFacts:
    """Check a target, or a draft model's own file.

    Raises PowerError P30x and P31x with everything that is wrong; each of these
    would make the engine refuse the file, end its process, or run it wrongly.
    """
    findings = Findings()
    reader = Reader(header, findings)
    architecture = _text_model(reader)
    findings.raise_any()
    dimensions = read_dimensions(reader, architecture)
    vocabulary = read_vocabulary(reader)
    if vocabulary is not None:
        _check_vocabulary_size(reader, architecture, len(vocabulary))
    if dimensions is not None:
        _check_head_lengths(reader, dimensions)
        if vocabulary is not None:
            check_model_tensors(reader, dimensions, len(vocabulary))
    findings.raise_any()
    assert dimensions is not None, "no dimensions without a finding"  # noqa: S101
    assert vocabulary is not None, "no vocabulary without a finding"  # noqa: S101
    return facts_of(header, dimensions, vocabulary)


def facts_of(header: Header, dimensions: Dimensions, vocabulary: Vocabulary) -> HeaderFacts:
    """What a plan records of a header that was checked."""
    template = header.text(CHAT_TEMPLATE)
    return HeaderFacts(
        architecture=dimensions.architecture,
        file_type=FILE_TYPES.get(header.integer("general.file_type") or 0, "unknown")
        if "general.file_type" in header.values
        else "unknown",
        layers=dimensions.layers,
        width=dimensions.width,
        vocabulary=len(vocabulary),
        context=dimensions.context,
        tokenizer_model=vocabulary.model,
        pre_tokenizer=vocabulary.pre,
        vocabulary_sha256=vocabulary.sha256(),
        chat_template_sha256=None
        if template is None
        else hashlib.sha256(template.encode()).hexdigest(),
        recurrent=dimensions.architecture in RECURRENT,
        nextn_layers=dimensions.nextn,
    )


def unproven(header: Header) -> str | None:
    """Why a model that passed `check_target` may still end the engine's process; None: known.

    Its tensors are not known one by one, so that the engine is the first to look at some.
    """
    architecture = header.text("general.architecture") or ""
    dimensions = read_dimensions(Reader(header, Findings()), architecture)
    if dimensions is None or known_tensors(dimensions):
        return None
    if dimensions.experts:
        return f"a mixture of {dimensions.experts} experts"
    if architecture in KNOWN_ARCHITECTURES:
        return "a model whose layers differ in size"
    return f"the architecture `{architecture}`"


def check_general_type(reader: Reader) -> None:
    """Find a file that says it is no model: an adapter, a projector, an imatrix (P301)."""
    kind = reader.text("general.type")
    if kind is not None and kind != "model":
        reader.findings.add(
            "P301",
            f"`general.type` says that this is no model but `{kind}`",
            place=reader.header.place("general.type"),
            expected="model",
            found=kind,
            hint="give the model itself; adapters and projectors are applied to one",
        )


def _text_model(reader: Reader) -> str:
    header = reader.header
    check_general_type(reader)
    key = "general.architecture"
    architecture = reader.text(key, required=True)
    if architecture is not None and architecture not in DECODERS:
        known = NOT_DECODERS.get(architecture)
        reader.findings.add(
            "P301",
            f"`{architecture}` is {known or 'an architecture that is not known here'}",
            place=header.place(key),
            expected="a causal text model such as llama, qwen3 or gemma3",
            found=architecture,
            hint="give a draft head with `kind`, or as `--kind`, beside its target"
            if architecture in {"eagle3", "dflash"}
            else "give a text generation model that this engine version supports",
        )
    if not header.tensors and not len(reader.findings):
        reader.findings.add(
            "P301",
            "the file has no tensor: it is a vocabulary, not a model",
            place=f"{header.name}: tensor_count at byte 8",
            expected="at least one tensor",
            found=0,
            hint="give the whole model",
        )
    return architecture or ""


def _check_vocabulary_size(reader: Reader, architecture: str, tokens: int) -> None:
    key = f"{architecture}.vocab_size"
    stated = reader.integer(key, 0, (1 << 32) - 1)
    if stated is not None and stated != tokens:
        reader.out_of_range(
            key,
            f"`{key}` is {stated}, but there are {tokens} tokens",
            expected=tokens,
            found=stated,
        )


def _check_head_lengths(reader: Reader, dimensions: Dimensions) -> None:
    if dimensions.architecture not in EQUAL_HEADS:
        return
    if dimensions.key_length != dimensions.value_length:
        key = f"{dimensions.architecture}.attention.value_length"
        reader.out_of_range(
            key,
            f"`{key}` differs from the key length",
            expected=dimensions.key_length,
            found=dimensions.value_length,
        )
