"""Requantise a GGUF with the engine's own quantiser, into a cache.

    python tools/requantise.py artifacts/MODEL.gguf [--type Q4_0] [--cache FOLDER]

A model's own requantisation is a draft that nobody has to publish: the same
vocabulary, a little faster or not, right most of the time. Prints the path. The
name holds the digest of the source, so a changed source is quantised anew.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

TYPES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7}  # llama_ftype
CACHE = Path(__file__).parent.parent / "artifacts" / "requantised"


def requantise(source: Path, kind: str = "Q4_0", cache: Path = CACHE) -> Path:
    """The path of `source` as `kind`, made unless the cache has it."""
    from power.backends.llamacpp.library import LOG, native

    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    out = cache / f"{source.stem}-{digest[:12]}-{kind}.gguf"
    if out.exists():
        return out
    cache.mkdir(parents=True, exist_ok=True)
    lib = native()
    params = lib.llama_model_quantize_default_params()
    params.ftype = TYPES[kind]
    params.allow_requantize = True
    # Renamed when whole: an interrupted run leaves nothing that looks finished.
    handle, name = tempfile.mkstemp(dir=cache, suffix=".part")
    os.close(handle)
    try:
        if lib.llama_model_quantize(os.fsencode(source), os.fsencode(name), params) != 0:
            sys.exit(f"the engine could not requantise {source}:\n{LOG.problems()}")
        Path(name).rename(out)
    finally:
        Path(name).unlink(missing_ok=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("--type", choices=TYPES, default="Q4_0")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    print(requantise(options.source, options.type, options.cache))


if __name__ == "__main__":
    main()
