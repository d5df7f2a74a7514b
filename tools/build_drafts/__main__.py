"""Build the tiny draft pairs that the engine tests run: real files, made in a second.

python -m tools.build_drafts FOLDER [NAME ...]
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path

from tools.build_drafts.catalogue import RECIPES, build


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.build_drafts", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "names", nargs="*", choices=[[], *(recipe.name for recipe in RECIPES)], metavar="NAME"
    )
    arguments = parser.parse_args(words)
    for path in build(arguments.folder, arguments.names or None).values():
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}")


if __name__ == "__main__":
    main()
