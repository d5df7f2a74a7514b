"""A model's vocabulary: checked, digested, and compared token by token from id 0."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat

from power.artifact.eog import CANDIDATES, end_of_generation
from power.artifact.findings import Findings
from power.artifact.header import Header
from power.artifact.reader import Reader
from power.artifact.values import Numbers, Strings, ValueType

TOKENS = "tokenizer.ggml.tokens"
TYPES = "tokenizer.ggml.token_type"
MERGES = "tokenizer.ggml.merges"
SCORES = "tokenizer.ggml.scores"
MODEL = "tokenizer.ggml.model"
PRE = "tokenizer.ggml.pre"

SPECIAL_NAMES = (
    *("bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "cls", "mask"),
    *("fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep"),
    *("prefix", "suffix", "middle"),
)
"""Special tokens as GGUF spells them (`seperator` is its spelling), the last three deprecated."""

# The tokenizers that a causal text model can have; llama.cpp, `llama_vocab::impl::load`.
_TOKENIZERS = ("llama", "gpt2", "gemma4", "t5", "rwkv", "plamo2", "whitespace")
_BYTE_LEVEL = "gpt2"  # its texts spell every byte as a printable character
_NEEDS_BYTES = frozenset({"llama"})  # what it has no token for is spelled byte by byte
_TRIES = frozenset({"t5", "rwkv"})  # one node a byte, freed by a recursion as deep as a text
_DEEPEST = 8192
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}
_NEEDS_MERGES = frozenset({"gpt2", "gemma4"})
_MERGELESS_PRE = "kimi-k2"
_TOKEN_TYPES = range(7)  # undefined, normal, unknown, control, user-defined, unused, byte
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# Strings a terminal acts upon: OSC, DCS, SOS, PM, APC. A lone ESC is a token of real models.
_TERMINAL_STRING = re.compile("\x1b[]PX^_]|\x00")
_SHOWN_TEXT = 60


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A checked vocabulary; arrays stay in the header until they are asked for.

    `special` holds the ids that the file states, by the names of SPECIAL_NAMES;
    `eog` every id that ends generation, found the way llama.cpp finds them.
    """

    name: str
    model: str
    pre: str
    tokens: Strings
    types: Numbers | None
    merges: Strings | None
    scores: Numbers | None
    special: Mapping[str, int]
    add_bos: bool | None
    add_eos: bool | None
    eog: frozenset[int]

    def __len__(self) -> int:
        return len(self.tokens)

    def text(self, name: str) -> str:
        """The text of the special token `name`, such as `bos`; empty when there is none."""
        return self.tokens.text(self.special[name]) if name in self.special else ""

    def sha256(self) -> str:
        """Digest over every token text, type and merge, the tokenizer, special ids and flags."""
        digest = hashlib.sha256(b"power-vocabulary-v1\0")
        for array in (self.tokens, self.types, self.merges):
            region = array.region if array is not None else b""
            digest.update(len(array or ()).to_bytes(8, "little"))
            digest.update(len(region).to_bytes(8, "little"))
            digest.update(region)
        settings = {
            "model": self.model,
            "pre": self.pre,
            "special": dict(sorted(self.special.items())),
            "add_bos": self.add_bos,
            "add_eos": self.add_eos,
        }
        digest.update(json.dumps(settings, sort_keys=True, separators=(",", ":")).encode())
        return digest.hexdigest()


def read_vocabulary(reader: Reader) -> Vocabulary | None:
    """Check everything about the tokenizer; None (and findings P31x) when it cannot be used."""
    before = len(reader.findings)
    model = _tokenizer_model(reader)
    pre = reader.text(PRE) or ""
    tokens = reader.strings(TOKENS, required=True)
    if tokens is None or model is None:
        return None
    present = _check_texts(reader, tokens, model)
    types = _token_types(reader, len(tokens))
    scores = _scores(reader, len(tokens))
    merges = _merges(reader, model, pre)
    special = _special(reader, len(tokens))
    add_bos = reader.flag("tokenizer.ggml.add_bos_token")
    add_eos = reader.flag("tokenizer.ggml.add_eos_token")
    if len(reader.findings) > before:
        return None
    eog = end_of_generation(present, special)
    return Vocabulary(
        reader.header.name,
        model,
        pre,
        tokens,
        types,
        merges,
        scores,
        special,
        add_bos,
        add_eos,
        eog,
    )


def vocabulary_of(header: Header) -> Vocabulary:
    """The vocabulary of a header; raises PowerError P30x or P31x with everything wrong."""
    findings = Findings()
    vocabulary = read_vocabulary(Reader(header, findings))
    findings.raise_any()
    assert vocabulary is not None, "no vocabulary without a finding"  # noqa: S101
    return vocabulary


def _tokenizer_model(reader: Reader) -> str | None:
    model = reader.text(MODEL, required=True)
    if model is None or model in _TOKENIZERS:
        return model
    reader.findings.add(
        "P310",
        f"`{MODEL}` is a tokenizer that no text model uses",
        place=reader.header.place(MODEL),
        expected=", ".join(_TOKENIZERS),
        found=model,
        hint="give a text generation model",
    )
    return None


def _check_texts(reader: Reader, tokens: Strings, model: str) -> dict[bytes, int]:
    """Check the texts; the ids of those that may end generation."""
    items = tokens.items()
    if not items:
        _bad_text(reader, "the vocabulary is empty", "at least one token", "none")
        return {}
    unique = set(items)
    if len(unique) < len(items) or b"" in unique:
        _find_duplicate(reader, items)
    if model in _NEEDS_BYTES:
        _find_missing_byte(reader, unique)
    if model in _TRIES:
        _find_too_long(reader, items, model)
    if model == "rwkv":
        _find_dead_end(reader, items)
    try:
        text = b"\n".join(items).decode("utf-8")
    except UnicodeDecodeError:
        _find_not_utf8(reader, items)
        return {}
    pattern = _CONTROL if model == _BYTE_LEVEL else _TERMINAL_STRING
    if pattern.search(text):
        _find_control(reader, items, pattern)
    return {text: items.index(text) for text in CANDIDATES & unique}


def _find_duplicate(reader: Reader, items: list[bytes]) -> None:
    seen: dict[bytes, int] = {}
    for index, item in enumerate(items):
        # The engine gives empty texts names of their own; two of them are no duplicates.
        first = seen.setdefault(item or b"[EMPTY_%d]" % index, index)
        if first != index:
            _bad_text(
                reader,
                f"tokens {first} and {index} have the same text `{_shown(item)}`",
                "unique texts",
                f"ids {first} and {index}",
            )
            return


def _find_missing_byte(reader: Reader, unique: set[bytes]) -> None:
    """The engine ends its process at the first text that needs a byte without a token."""
    for byte in range(256):
        if b"<0x%02X>" % byte not in unique and (byte > 0x7F or bytes([byte]) not in unique):  # noqa: PLR2004 - ASCII
            _bad_text(
                reader,
                f"no token stands for the byte 0x{byte:02x}, as `{MODEL}` `llama` needs",
                f"`<0x{byte:02X}>`, one of 256 byte tokens",
                "none",
            )
            return


def _find_too_long(reader: Reader, items: list[bytes], model: str) -> None:
    """The engine's stack does not hold the tree of such a text."""
    longest = max(items, key=len)
    if len(longest) > _DEEPEST:
        _bad_text(
            reader,
            f"the text of token {items.index(longest)} is too long for the tree of `{model}`",
            f"at most {_DEEPEST} bytes",
            f"{len(longest)} bytes",
        )


def _find_dead_end(reader: Reader, items: list[bytes]) -> None:
    """The engine reads the longest text that fits, and begins again for ever where none does.

    So each byte that begins a text has to be a text itself, as all 256 are in RWKV's own.
    """
    texts = [_unescaped(item) if b"\\" in item else item for item in items]
    alone = {text for text in texts if len(text) == 1}
    for index, text in enumerate(texts):
        if text and text[:1] not in alone:
            _bad_text(
                reader,
                f"token {index} begins with a byte that no token of `rwkv` stands for",
                f"a token of the byte 0x{text[0]:02x}",
                "none",
            )
            return


def _unescaped(item: bytes) -> bytes:
    r"""A text of RWKV's as the engine reads it: `\t`, `\n`, `\r`, `\x41`, else what follows."""
    return _ESCAPE.sub(lambda found: _escaped_byte(found[1]), item)


def _escaped_byte(name: bytes) -> bytes:
    return bytes([int(name[1:], 16)]) if len(name) > 1 else _ESCAPED.get(name, name)


def _find_not_utf8(reader: Reader, items: list[bytes]) -> None:
    for index, item in enumerate(items):
        try:
            item.decode("utf-8")
        except UnicodeDecodeError:
            _bad_text(
                reader, f"the text of token {index} is not UTF-8", "UTF-8", item[:16].hex(" ")
            )
            return


def _find_control(reader: Reader, items: list[bytes], pattern: re.Pattern[str]) -> None:
    for index, item in enumerate(items):
        if pattern.search(item.decode("utf-8")):
            _bad_text(
                reader,
                f"the text of token {index} holds a control sequence",
                "text that cannot act on a terminal",
                _shown(item),
            )
            return


def _bad_text(reader: Reader, message: str, expected: str, found: str) -> None:
    reader.findings.add(
        "P311",
        message,
        place=reader.header.place(TOKENS),
        expected=expected,
        found=found,
        hint="fetch the original model: a converter never writes this",
    )


def _shown(item: bytes) -> str:
    return item.decode("utf-8", "backslashreplace")[:_SHOWN_TEXT]


def _token_types(reader: Reader, count: int) -> Numbers | None:
    types = reader.numbers(TYPES, (ValueType.INT32,))
    if types is None or not _same_length(reader, TYPES, len(types), count):
        return None
    numbers = types.items()
    unknown = set(numbers).difference(_TOKEN_TYPES)
    if unknown:
        wrong = int(min(unknown))
        _bad_table(
            reader,
            TYPES,
            f"token {numbers.index(wrong)} has type {wrong}",
            expected="0 to 6",
            found=wrong,
        )
    return types


def _scores(reader: Reader, count: int) -> Numbers | None:
    scores = reader.numbers(SCORES, (ValueType.FLOAT32, ValueType.INT32))
    if scores is None or not _same_length(reader, SCORES, len(scores), count):
        return None
    # A sum of float32 values cannot overflow a float64: it is finite exactly when all are.
    if not math.isfinite(sum(scores.items())):
        _bad_table(
            reader, SCORES, "a score is not finite", expected="finite numbers", found="NaN or inf"
        )
    return scores


def _merges(reader: Reader, model: str, pre: str) -> Strings | None:
    merges = reader.strings(MERGES, required=model in _NEEDS_MERGES and pre != _MERGELESS_PRE)
    if merges is None:
        return None
    items = merges.items()
    # A separator at 0 belongs to the left part: the engine looks from the second byte.
    separators = list(map(bytes.find, items, repeat(b" "), repeat(1)))
    if -1 in separators:
        index = separators.index(-1)
        _bad_table(
            reader,
            MERGES,
            f"merge {index} has no separator",
            expected="two parts with a space between",
            found=_shown(items[index]),
        )
    return merges


def _special(reader: Reader, count: int) -> dict[str, int]:
    """The ids the file states. Ids that merges never name are allowed: no token is lost by them."""
    out: dict[str, int] = {}
    for name in SPECIAL_NAMES:
        key = f"tokenizer.ggml.{name}_token_id"
        number = reader.integer(key, 0, (1 << 32) - 1)
        if number is None:
            if name == "eos" and key not in reader.header.values:
                _bad_special(reader, key, f"`{key}` is missing", count, "nothing")
            continue
        if number >= count:
            _bad_special(
                reader,
                key,
                f"`{key}` is {number}, outside the vocabulary of {count}",
                count,
                number,
            )
            continue
        out[name] = number
    return out


def _bad_special(reader: Reader, key: str, message: str, count: int, found: object) -> None:
    reader.findings.add(
        "P312",
        message,
        place=reader.header.place(key),
        expected=f"an id from 0 to {count - 1}",
        found=found,
        hint="convert the model again, or set the key with `gguf-set-metadata`",
    )


def _same_length(reader: Reader, key: str, length: int, count: int) -> bool:
    if length == count:
        return True
    _bad_table(
        reader,
        key,
        f"`{key}` has {length} items for {count} tokens",
        expected=count,
        found=length,
    )
    return False


def _bad_table(reader: Reader, key: str, message: str, *, expected: object, found: object) -> None:
    reader.findings.add(
        "P310",
        message,
        place=reader.header.place(key),
        expected=expected,
        found=found,
        hint="convert the model again with a current llama.cpp",
    )
