"""What a file is when it is not a GGUF: people meet these under a `.gguf` name."""

from __future__ import annotations

_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"tjgg", "a GGJT file, the format before GGUF", "convert the original model again"),
    (b"fmgg", "a GGMF file, the format before GGUF", "convert the original model again"),
    (b"lmgg", "a GGML file, the format before GGUF", "convert the original model again"),
    (b"\x1f\x8b", "a gzip archive", "unpack it with `gunzip`"),
    (b"PK\x03\x04", "a ZIP archive, such as a PyTorch checkpoint", "convert the model to GGUF"),
    (b"\xfd7zXZ\x00", "an xz archive", "unpack it with `unxz`"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive", "unpack it with `unzstd`"),
    (b"BZh", "a bzip2 archive", "unpack it with `bunzip2`"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first"),
    (b"\x89HDF", "an HDF5 file, such as a Keras checkpoint", "convert the model to GGUF"),
    (b"\x93NUMPY", "a NumPy array", "give the GGUF file of the model"),
    (b"\x7fELF", "an ELF program or library", "give the GGUF file of the model"),
    (
        b"version https://git-lfs.github.com/",
        "a Git LFS pointer: the model itself was not fetched",
        "run `git lfs pull` in the repository it came from",
    ),
)
_PICKLES = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))


def foreign(start: bytes) -> tuple[str, str] | None:
    """(what it is, next action) for the first bytes of a file, None when nothing is known.

    64 bytes are enough.
    """
    if not start:
        return "an empty file", "download it again"
    for signature, name, action in _SIGNATURES:
        if start.startswith(signature):
            return name, action
    if start[8:10] == b'{"' and 0 < int.from_bytes(start[:8], "little") < 1 << 32:
        return "a safetensors file", "convert the model to GGUF"
    if start.startswith(_PICKLES):
        return "a Python pickle, such as a PyTorch checkpoint", "convert the model to GGUF"
    return _instead_of_download(start)


def _instead_of_download(start: bytes) -> tuple[str, str] | None:
    """What servers and interrupted downloads leave behind."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        return (
            "an HTML page saved under a model's name",
            "download the file itself: a hub's `resolve/` address, not its `blob/` page",
        )
    if text.startswith((b'{"', b"{'")):
        return "a JSON text, perhaps a server's error message", "download it again"
    if not start.strip(b"\0"):
        return "a file of zeros: a download that reserved space and stopped", "download it again"
    return None
