"""Count the tokens of a text, with the tokenizer that a GGUF holds.

    python -m tools.count_tokens MODEL TEXT

Prints one JSON object, token id -> count. The engine's tokenizer does the work,
so the file may hold a draft head: nothing but its vocabulary is loaded. Every
line is tokenised for itself, its line feed included, without BOS or EOS, and
control tokens written in the text stay text.

Run it in a process of its own: a file that nobody has checked may end it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def count(model: Path, text: Path) -> Counter[int]:
    """How often each token id occurs in `text`."""
    from power.backends.llamacpp.library import LOG, native

    lib = native()
    params = lib.llama_model_default_params()
    params.vocab_only = True
    handle = lib.llama_model_load_from_file(os.fsencode(model), params)
    if not handle:
        sys.exit(f"the engine refused the vocabulary of {model}:\n{LOG.problems()}")
    vocab = lib.llama_model_get_vocab(handle)
    found: Counter[int] = Counter()
    with text.open("rb") as lines:
        for line in lines:
            found.update(_tokenise(lib, vocab, line))
    lib.llama_model_free(handle)
    return found


def _tokenise(lib: Any, vocab: Any, line: bytes) -> list[int]:
    room = len(line) + 8  # no token is shorter than a byte, but for a space prefix
    buffer = (lib.llama_token * room)()
    add_special = parse_special = False
    found = lib.llama_tokenize(vocab, line, len(line), buffer, room, add_special, parse_special)
    if not 0 <= found <= room:
        sys.exit(f"the engine could not tokenise a line of {len(line)} bytes")
    return list(buffer[:found])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    options = parser.parse_args()
    json.dump(count(options.model, options.text), sys.stdout)


if __name__ == "__main__":
    main()
