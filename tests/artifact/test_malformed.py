"""Containers that no reader should take, beyond the corpus: each is refused by name and place."""

import struct
from collections.abc import Callable

import pytest

from power.artifact.header import Header
from tests.artifact.build import (
    ARRAY,
    BOOL,
    F32,
    I32,
    STRING,
    TYPES,
    U8,
    U16,
    U32,
    Gguf,
    Tensor,
    array,
    llama,
    text,
)
from tests.artifact.conftest import Read, Refusal

Case = tuple[Callable[[], Gguf | bytes], str, tuple[str, ...]]


def _bare() -> Gguf:
    return Gguf().put("general.architecture", STRING, "llama").tensor("a.weight", (8, 4))


def _joined() -> bytes:
    one = llama().put("split.count", U16, 2).encode()
    return one + one


def _later_alignment() -> Gguf:
    """The alignment says 64, the offsets were made with 32."""
    return (
        _bare().tensor("b.weight", (8,)).tensor("c.weight", (8,)).put("general.alignment", U32, 64)
    )


def _offset_into_header() -> Gguf:
    return _bare().tensor("b.weight", (8,), offset=0)


CASES: dict[str, Case] = {
    "array of arrays": (
        lambda: _bare().raw("x", ARRAY, struct.pack("<IQ", ARRAY, 1) + array(U32, [1])),
        "P205",
        ("`x` is an array of arrays",),
    ),
    "boolean 2": (lambda: _bare().raw("x.flag", BOOL, b"\x02"), "P205", ("x.flag", "0 or 1")),
    "boolean 255 in an array": (
        lambda: _bare().raw("x.flags", ARRAY, struct.pack("<IQ", BOOL, 3) + b"\x01\x00\xff"),
        "P205",
        ("x.flags", "255"),
    ),
    "value type 13": (lambda: _bare().raw("x", 13, b""), "P205", ("value type 13",)),
    "strings that outgrow the file together": (
        lambda: _bare().raw(
            "x.texts",
            ARRAY,
            struct.pack("<IQ", STRING, 2) + text("a" * 200) + struct.pack("<Q", 300),
        ),
        "P203",
        ("x.texts", "string 1"),
    ),
    "the last string of an array is longer than the file": (
        lambda: _bare().raw(
            "x.texts", ARRAY, struct.pack("<IQ", STRING, 2) + text("a") + struct.pack("<Q", 1 << 63)
        ),
        "P203",
        ("x.texts",),
    ),
    "a string length of 2^64-1 in an array": (
        lambda: _bare().raw(
            "x.texts", ARRAY, struct.pack("<IQQ", STRING, 1, (1 << 64) - 1) + b"abc"
        ),
        "P203",
        ("x.texts",),
    ),
    "more strings than any tokenizer has": (
        lambda: _bare().raw(
            "x.texts", ARRAY, struct.pack("<IQ", STRING, (1 << 20) + 1) + bytes(9 << 20)
        ),
        "P203",
        ("x.texts", "1048576"),
    ),
    "numbers beyond the file": (
        lambda: _bare().raw("x.sizes", ARRAY, struct.pack("<IQ", F32, 1 << 20)),
        "P203",
        ("x.sizes", "1048576 items"),
    ),
    "no tensors, but data": (
        lambda: Gguf().put("general.architecture", STRING, "llama").encode() + bytes(4096),
        "P208",
        ("4096 bytes follow",),
    ),
    "bytes after the last tensor": (
        lambda: llama().encode() + b"x" * 33,
        "P208",
        ("33 bytes follow the last tensor",),
    ),
    "two files joined": (_joined, "P208", ("second GGUF", "split.count")),
    "a key of 65,536 bytes": (
        lambda: _bare().raw("k" * 65536, U8, b"\x01"),
        "P205",
        ("metadata key 1", "65536 bytes"),
    ),
    "a key with a space": (lambda: _bare().put("x y", U8, 1), "P204", ("`x y`",)),
    "a key with a C1 control": (
        lambda: _bare().raw("x\x9by", U8, b"\x01"),
        "P204",
        ("metadata key 1", "x\\x9by"),
    ),
    "an alignment that the offsets do not follow": (
        _later_alignment,
        "P208",
        ("c.weight", "multiple of the alignment 64"),
    ),
    "an alignment of 128 KiB": (
        lambda: _bare().put("general.alignment", U32, 1 << 17),
        "P206",
        ("131072",),
    ),
    "five dimensions in a later tensor": (
        lambda: _bare().tensor("b.weight", (2, 2, 2, 2, 2)),
        "P207",
        ("b.weight", "5 dimensions"),
    ),
    "a type below zero": (
        lambda: _bare().tensor("b.weight", (8,), type=0xFFFFFFFF),
        "P207",
        ("b.weight", "4294967295"),
    ),
    "rows of half a block": (
        lambda: _bare().tensor("b.weight", (16, 2), type=TYPES["Q8_0"]),
        "P207",
        ("b.weight", "rows of 16"),
    ),
    "a tensor over the first one": (_offset_into_header, "P208", ("b.weight", "overlaps")),
    "a tensor name with NUL": (
        lambda: _bare().tensor("b\0.weight", (8,)),
        "P207",
        ("tensor 1", "\\x00"),
    ),
    "tensor_count one too high": (
        lambda: _counted(4),
        "P207",
        ("tensor 3", "tensor_count at byte 8"),
    ),
    "tensor_count one too low": (lambda: _counted(2), "P208", ("bytes follow the last tensor",)),
    "a tensor of 2^63 bytes": (
        lambda: _bare().tensor("b.weight", (1 << 30, 1 << 31)),
        "P207",
        ("b.weight", "1073741824 x 2147483648"),
    ),
    "a dimension of 0 in a later tensor": (
        lambda: _bare().tensor("b.weight", (8, 0)),
        "P207",
        ("b.weight", "dimension of 0"),
    ),
    "a type that ggml removed": (
        lambda: _bare().tensor("b.weight", (32,), type=31),
        "P207",
        ("b.weight", "Q4_0_4_4", "quantise the model again"),
    ),
    "a tensor name of 64 bytes": (
        lambda: _bare().tensor("n" * 64, (8,)),
        "P207",
        ("64 bytes long",),
    ),
    "a name twice": (
        lambda: Gguf(tensors=[Tensor("a", (8,)), Tensor("a", (8,))]),
        "P207",
        ("`a` occurs twice",),
    ),
    "a key twice": (
        lambda: Gguf(pairs=[("x", U8, b"\x01"), ("x", U8, b"\x02")]),
        "P204",
        ("`x` occurs twice",),
    ),
    "an empty key": (
        lambda: Gguf(pairs=[("", U8, b"\x01")], tail=b"x"),
        "P204",
        ("key 0 is empty",),
    ),
    "an alignment of another type": (
        lambda: _bare().put("general.alignment", U16, 32),
        "P206",
        ("general.alignment", "uint16"),
    ),
    "a text of 17 MiB": (
        lambda: _bare().put("general.description", STRING, "x" * (17 << 20)),
        "P205",
        ("general.description", "17825792 bytes"),
    ),
    "big-endian": (
        lambda: b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "P202",
        ("big-endian", "version"),
    ),
    "a file of four zero bytes": (lambda: bytes(4), "P201", ("zeros",)),
    "an empty file": (lambda: b"", "P201", ("empty file",)),
    "a Git LFS pointer": (
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
        "P201",
        ("Git LFS pointer", "git lfs pull"),
    ),
    "a ZIP": (lambda: b"PK\x03\x04" + bytes(99), "P201", ("ZIP",)),
    "a pickle": (lambda: b"\x80\x02}q\x00.", "P201", ("pickle",)),
    "safetensors": (
        lambda: struct.pack("<Q", 16) + b'{"__metadata__":{}}',
        "P201",
        ("safetensors",),
    ),
    "a server's error": (lambda: b'{"error":"gated"}', "P201", ("JSON", "download it again")),
    "zstd": (lambda: b"\x28\xb5\x2f\xfd" + bytes(9), "P201", ("Zstandard",)),
    "a model of GGML's first days": (lambda: b"lmgg" + bytes(99), "P201", ("GGML",)),
    "a text value that is not UTF-8": (
        lambda: _bare().raw("general.name", STRING, text(b"ab\xff\xfe")),
        "P205",
        ("general.name", "ff fe"),
    ),
}


def _counted(count: int) -> Gguf:
    gguf = _bare().tensor("b.weight", (8,)).tensor("c.weight", (8,))
    gguf.tensor_count = count
    return gguf


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, read: Read, refusal: Refusal) -> None:
    make, code, mention = CASES[name]
    shown = refusal(lambda: read(make()))
    assert shown.startswith(f"error[{code}]")
    assert [part for part in mention if part not in shown] == []
    assert "  --> model.gguf" in shown
    assert " at byte " in shown


@pytest.mark.parametrize("length", range(0, len(llama(1).header()), 7))
def test_a_header_cut_anywhere_is_refused(length: int, read: Read, refusal: Refusal) -> None:
    assert "error[P20" in refusal(lambda: read(llama(1).encode()[:length]))


def test_every_field_is_read_where_it_is(read: Read) -> None:
    """What the builder wrote is what the header says: the cases above differ in one thing only."""
    header: Header = read(
        llama().put_array("x.i32", I32, [-1, 2]).put_array("x.strs", STRING, ["", "é"])
    )
    assert header.version == 3
    assert header.alignment == 32
    assert header.integer("llama.block_count") == 3
    assert header.text("general.architecture") == "llama"
    assert header.flag("tokenizer.ggml.add_bos_token") is False
    assert header.integer("general.architecture") is None
    assert header.tensors["blk.2.ffn_down.weight"].shape == (64, 32)
    last = list(header.tensors.values())[-1]
    assert last.offset + last.size <= header.size
