"""What tests/vectors/plans holds: `python -m tests.plan.vectors` writes, a test compares.

Each refused plan is the good one with one edit; its name begins with the code
that refuses it. Edits behind `resealed` have a digest that fits.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

from power.artifact.facts import HeaderFacts
from power.manifest.model import Settings, Target
from power.plan import lock
from power.plan.compiler import Inputs, compile_plan
from power.plan.model import Source
from power.plan.show import show_text
from tests.plan.conftest import Engine

FOLDER = Path(__file__).parents[1] / "vectors" / "plans"
Edit = Callable[[str], str]


def swap(old: str, new: str) -> Edit:
    def edit(text: str) -> str:
        assert text.count(old) == 1, old
        return text.replace(old, new)

    return edit


def resealed(edit: Edit) -> Edit:
    def both(text: str) -> str:
        body = tomllib.loads(edit(text))
        del body["lock"]
        return lock.dumps(lock.seal(body))

    return both


EDITS: dict[str, Edit] = {
    "P431-conflict-markers": swap("threads = 2\n", "<<<<<<< a\nthreads = 2\n=======\n>>>>>>> b\n"),
    "P432-cut-off": lambda text: text[: len(text) // 2].rsplit('"', 1)[0],
    "P432-duplicate-key": swap("rows = 8\n", "rows = 8\nrows = 8\n"),
    "P432-duplicate-table": lambda text: text + "\n[graph]\nbatch = 11\n",
    "P433-newer-version": swap("\nversion = 1\n", "\nversion = 2\n"),
    "P433-version-zero": swap("\nversion = 1\n", "\nversion = 0\n"),
    "P434-unknown-key": swap("rows = 8\n", "rows = 8\nturbo = true\n"),
    "P434-unknown-table": lambda text: text + "\n[turbo]\n",
    "P434-missing-key": swap("seed = 42\n", ""),
    "P434-missing-digest": lambda text: text[: text.index("\n[lock]")],
    "P434-boolean-for-integer": swap("main_gpu = 0", "main_gpu = false"),
    "P434-float-for-integer": swap("rows = 8\n", "rows = 8.0\n"),
    "P434-integer-for-boolean": swap("cuda_graphs = true", "cuda_graphs = 1"),
    "P434-not-a-number": swap("temperature = 0.0", "temperature = nan"),
    "P434-infinite": swap("temperature = 0.0", "temperature = inf"),
    "P434-width-out-of-range": swap("spec_draft_max = 7", "spec_draft_max = 65"),
    "P434-digest-in-capitals": lambda text: text[:-70] + text[-70:].upper(),
    "P434-beyond-rfc-8785": swap("bytes = 98362432", "bytes = 9007199254740992"),
    "P434-name-that-climbs": swap(
        '\nname = "small"\n\n[manifest]', '\nname = "../../small"\n\n[manifest]'
    ),
    "P434-manifest-name-that-climbs": swap(
        '[manifest]\nname = "small"', '[manifest]\nname = "../small"'
    ),
    "P434-profile-name-in-capitals": swap('name = "balanced"', 'name = "Balanced"'),
    "P434-name-too-long": swap(
        '\nname = "small"\n\n[manifest]', f'\nname = "{"a" * 64}"\n\n[manifest]'
    ),
    "P434-control-character-in-a-license": swap('"Apache-2.0"', '"Apache\\u001b[31m"'),
    "P434-reason-without-end": swap("asked for by name", "a" * 2001),
    "P435-edited-fact": swap("context = 4096", "context = 8192"),
    "P435-edited-name": swap('\nname = "small"\n\n', '\nname = "large"\n\n'),
    "P435-edited-artifact-digest": swap('sha256 = "aaaaa', 'sha256 = "aaaab'),
    "P435-dropped-optional-fact": swap("min_acceptance = 0.25\n", ""),
    "P436-reordered-keys": swap('batch = 11\nshape = "fixed"\n', 'shape = "fixed"\nbatch = 11\n'),
    "P436-negative-zero": swap("temperature = 0.0", "temperature = -0.0"),
    "P436-comment": swap("rows = 8\n", "rows = 8  # K + 1\n"),
    "P436-no-final-line-feed": lambda text: text[:-1],
    "P436-windows-line-ends": lambda text: text.replace("\n", "\r\n"),
    "P411-batch-without-room": resealed(swap("batch = 11", "batch = 8")),
    "P412-rows-above-batch": resealed(swap("rows = 8\n", "rows = 12\n")),
    "P419-context-beyond-target": resealed(swap("context = 4096", "context = 8193")),
    "P424-another-name-than-the-manifest": resealed(
        swap('\nname = "small"\n\n[manifest]', '\nname = "large"\n\n[manifest]')
    ),
    "P424-no-rollback-rule": resealed(swap('rollback = "trim"\n', "")),
    "P424-another-effective-window": resealed(
        swap("effective_snapshots = 6", "effective_snapshots = 7")
    ),
    "P424-width-in-an-off-plan": resealed(swap('strategy = "prompt-lookup"', 'strategy = "off"')),
}


def refused(good: str) -> dict[str, bytes]:
    """File name -> bytes of every plan that must be refused."""
    return {f"{name}.lock": edit(good).encode() for name, edit in EDITS.items()}


def good() -> str:
    """A plan with most of what a plan may hold."""
    inputs = Inputs(
        name="small",
        manifest=Source(name="small", sha256="3" * 64),
        profile=Source(name="balanced", sha256="9" * 64),
        settings=Settings.model_validate(
            {
                "speculation": {
                    "spec_mode": "prompt-lookup",
                    "spec_mtp_recurrent_snapshots": 6,
                },
                "graph": {"shape": "fixed", "rows": 8, "batch": 11},
                "host": {"threads": 2, "require": ["cuda"]},
                "sampling": {"seed": 42, "grammar": 'root ::= "yes" | "no"\n'},
                "bounds": {"min_acceptance": 0.25},
            }
        ),
        target=Target(
            path="models/small.gguf",
            bytes=98362432,
            sha256="a" * 64,
            source="https://example.org/small",
            license="Apache-2.0",
        ),
        target_header=HeaderFacts(
            architecture="llama",
            file_type="MOSTLY_Q4_1",
            layers=30,
            width=576,
            vocabulary=49152,
            context=8192,
            tokenizer_model="gpt2",
            pre_tokenizer="smollm",
            vocabulary_sha256="5" * 64,
            chat_template_sha256="6" * 64,
            recurrent=False,
        ),
        draft=None,
        engine=Engine(),
    )
    return lock.dumps(compile_plan(inputs))


def main() -> None:
    text = good()
    (FOLDER / "good.lock").write_bytes(text.encode())
    (FOLDER / "good.txt").write_text(show_text(lock.loads(text, "good.lock")), "utf-8")
    for old in (FOLDER / "refuse").glob("*.lock"):
        old.unlink()
    for name, data in refused(text).items():
        (FOLDER / "refuse" / name).write_bytes(data)


if __name__ == "__main__":
    main()
