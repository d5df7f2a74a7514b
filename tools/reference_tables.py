"""Tables for docs/reference from the models that read and write the files: one row a key."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from power.manifest.model import LARGEST_INTEGER, Manifest, Settings
from power.manifest.profile import Profile
from power.manifest.text_rules import Expected
from power.plan.model import Plan

UNLIMITED = f"{LARGEST_INTEGER:,}"

# What a key means, where its model does not say; the longest matching path wins.
MEANINGS = {
    "schema": "version of this format",
    "name": "what the plan and its messages call it",
    "profile": "settings to start from",
    "summary": "what it is for",
    "path": "where the file lies, below the manifest's folder or an artifact root",
    "bytes": "size of the file",
    "sha256": "digest of the file",
    "license": "of the weights, as its publisher states it",
    "shards": "every file of a split GGUF, in order",
    "kind": "the contract that the draft is held to",
    "target_sha256": "the target it was made for",
    "draft_sha256": "the draft's digest, where there was one",
    "flash_attention": "attention kernels; decides which row counts agree (docs: exactness)",
    "cuda_graphs": "reuse of captured graphs on CUDA devices",
    "gpu_layers": "layers on a device",
    "main_gpu": "the device for what is not split",
    "cpu_affinity": "CPUs that the engine's threads stay on; omit for none",
    "process_priority": "of the engine's process",
    "cuda_high_priority": "high-priority CUDA streams; no effect with llama-cpp-python 0.3.36",
    "top_k": "keep the k likeliest tokens",
    "top_p": "keep the likeliest tokens that together reach p",
    "min_p": "keep tokens of at least this share of the likeliest one's probability",
    "typical_p": "keep the locally typical tokens that together reach p",
    "grammar": "GBNF text that the output must match",
    "seed": "of the random draws",
    "level": "the claim (docs: exactness)",
    "by": "who measured: somebody else, or this project",
    "source": "where the numbers were published",
    "report": "the report file, relative to the profile",
    "report_sha256": "digest of the report file",
    "version": "a newer one is refused",
    "revision": "of the layout within a version",
    "plan.name": "the manifest's name",
    "manifest.name": "the manifest's name",
    "manifest.sha256": "digest of what it says, not of its layout",
    "profile.name": "the profile's name",
    "profile.sha256": "digest of what it says but for its evidence, not of its layout",
    "target.source": "provenance, as the manifest states it",
    "target.revision": "of the source",
    "draft.source": "provenance, as the manifest states it",
    "draft.revision": "of the source",
    "architecture": "`general.architecture` of the GGUF",
    "file_type": "quantisation",
    "layers": "blocks",
    "width": "length of an embedding",
    "vocabulary": "number of tokens",
    "header.context": "positions it was trained for",
    "tokenizer_model": "`tokenizer.ggml.model`",
    "pre_tokenizer": "`tokenizer.ggml.pre`",
    "vocabulary_sha256": "digest of tokens, types, merges and special ids",
    "chat_template_sha256": "digest of the chat template",
    "max_width": "most tokens that the draft can propose at once",
    "fr_vocabulary": "rows of the draft's own reduced head",
    "notes": "what was found and does not stand in the way",
    "requested": "`spec_mode` as the manifest asks",
    "strategy": "what will run",
    "reason": "why it is this one",
    "effective_snapshots": "min(S, K)",
    "rollback": "how rejected rows are dropped: a trim of the cache, or snapshots of the state",
    "fr_rule": "which rows the draft head projects",
    "fr_sha256": "digest of the map of ids: of a prefix, or the draft's own `d2t` table",
    "package": "the engine's distribution",
    "engine.version": "its version",
    "llama_cpp": "version of the library inside",
    "capabilities": "strategies that the plan relies on",
    "plan_sha256": "SHA-256 over the RFC 8785 form of everything else",
}


def shape(annotation: Any) -> str:
    """Say in words what values `annotation` takes, without None."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        expected = [item.text for item in inner[1:] if isinstance(item, Expected)]
        return expected[0] if expected else limited(shape(inner[0]), flat(inner[1:]))
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(shape(part) for part in inner if part is not types.NoneType)
    if origin in {tuple, list}:
        return f"list: {shape(inner[0])}"
    if origin is dict:
        return f"table: {shape(inner[0])} = {shape(inner[1])}"
    names = {int: "integer", float: "number", str: "text", bool: "`true` or `false`"}
    return names.get(annotation, "table")


def flat(metadata: typing.Sequence[Any]) -> list[Any]:
    """Unpack the constraints that a pydantic `Field(...)` in an annotation carries."""
    found: list[Any] = []
    for item in metadata:
        found += item.metadata if isinstance(item, FieldInfo) else [item]
    return found


def limited(words: str, metadata: list[Any]) -> str:
    """Add the range that `metadata` states to `words`, the kind of value."""
    limits = {}
    for item in metadata:
        for name in ("ge", "gt", "le", "lt"):
            if isinstance(item, annotated_types.BaseMetadata) and hasattr(item, name):
                limits[name] = f"{getattr(item, name):,}"
    if limits.get("le") == UNLIMITED:
        del limits["le"]
    if words not in {"integer", "number"} or not limits:
        return words
    if "ge" in limits and limits["ge"] == limits.get("le"):
        return f"`{limits['ge']}`"
    if {"ge", "le"} <= set(limits):
        return f"{words}, {limits['ge']} to {limits['le']}"
    signs = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    return f"{words}, " + ", ".join(f"{signs[name]} {value}" for name, value in limits.items())


def sections(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield `model` and every table inside it, with its dotted path."""
    yield path, model
    for name, field in own_first(model).items():
        inner = inner_model(field.annotation)
        if inner is not None:
            yield from sections(inner, f"{path}.{name}".lstrip("."))


def own_first(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Fields of `model`, those it declares itself before those it inherits."""
    declared = model.__annotations__
    return dict(sorted(model.model_fields.items(), key=lambda item: item[0] not in declared))


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """Find the table that a field holds, alone or in a list; None for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (inner_model(part) for part in typing.get_args(annotation))
    return next((model for model in found if model is not None), None)


def meaning(path: str, name: str, field: FieldInfo) -> str:
    """Say what a key means; KeyError where nobody has said it."""
    if field.description:
        return field.description
    parts = [*path.split("."), name]
    for start in range(len(parts)):
        key = ".".join(parts[start:])
        if key in MEANINGS:
            return MEANINGS[key]
    same_key = dict(sections(Settings))[path].model_fields[name]
    if same_key.description is None:
        raise KeyError(f"{path}.{name} is explained nowhere")
    return same_key.description


def default(field: FieldInfo) -> str:
    """Write a default as TOML would."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return ""
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value)}`"


def table(path: str, model: type[BaseModel], *, root: str, defaults: bool) -> str:
    """One Markdown table, a row a key that holds no table of its own."""
    rows = []
    for name, field in own_first(model).items():
        if inner_model(field.annotation) is not None:
            continue
        key = field.alias or name
        words = limited(shape(field.annotation), flat(field.metadata))
        expected = [item.text for item in field.metadata if isinstance(item, Expected)]
        cells = [f"`{key}`", expected[0] if expected else words]
        if defaults:
            cells.append(default(field))
        cells.append(meaning(path or root, key, field))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    head = ["key", "value", *(["default"] if defaults else []), "meaning"]
    rule = "| " + " | ".join("---" for _ in head) + " |"
    return "\n".join(["| " + " | ".join(head) + " |", rule, *rows])


def reference(model: type[BaseModel], root: str, *, defaults: bool) -> str:
    """Every table of a file, each under its heading and its model's docstring."""
    parts = []
    for path, section in sections(model):
        many = path.endswith(("shards", "evidence"))
        title = (f"`[[{path}]]`" if many else f"`[{path}]`") if path else "Top level"
        body = table(path, section, root=root, defaults=defaults)
        if body.count("\n") > 1:
            words = "\n".join(line.strip() for line in (section.__doc__ or "").splitlines())
            parts.append(f"### {title}\n\n{words.strip()}\n\n{body}" if path else body)
    return "\n\n".join(parts)


def manifest() -> str:
    """Keys of a manifest."""
    return reference(Manifest, "file", defaults=True)


def profile() -> str:
    """Keys that a profile has and a manifest has not."""
    own = [(p, m) for p, m in sections(Profile) if p in {"", "evidence"}]
    return "\n\n".join(
        (f"### `[[{path}]]`\n\n" if path else "") + table(path, m, root="file", defaults=True)
        for path, m in own
    )


def plan() -> str:
    """Keys of a plan."""
    return reference(Plan, "plan", defaults=False)
