"""Write the draft vectors again:  python -m tests.vectors.drafts.build

Each is a draft and the target it is judged with; `index.json` has the verdict, what
a refusal must say, and what the engine does with the file when nothing refuses it.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.vectors.drafts.broken import BROKEN, DRAFTS, TARGETS

FOLDER = Path(__file__).parent
GOOD_TARGETS = {"mtp": "qwen35"}


def files() -> dict[str, bytes]:
    """Every file of the folder but the programs, by name."""
    out = {f"target-{name}.gguf": make().encode() for name, make in TARGETS.items()}
    index: list[dict[str, str]] = []
    for kind, make in DRAFTS.items():
        name = f"good-{kind}.gguf"
        out[name] = make().encode()
        target = GOOD_TARGETS.get(kind, "llama")
        index.append(_entry(name, kind, target) | {"verdict": "accept", "engine": "takes"})
    for why, broken in BROKEN.items():
        name = f"{why.replace(': ', '-').replace(' ', '-')}.gguf"
        out[name] = broken.encode()
        entry = _entry(name, broken.driven or broken.kind, broken.target)
        refusal = {"verdict": "reject", "code": broken.code, "mention": broken.mention}
        index.append(entry | refusal | {"engine": broken.past, "why": why})
    out["index.json"] = (json.dumps(index, indent=1, ensure_ascii=False) + "\n").encode()
    return out


def _entry(name: str, kind: str, target: str) -> dict[str, str]:
    return {"file": name, "kind": kind, "target": f"target-{target}.gguf"}


def main() -> None:
    made = files()
    for path in FOLDER.glob("*.gguf"):
        if path.name not in made:
            path.unlink()
    for name, data in made.items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
