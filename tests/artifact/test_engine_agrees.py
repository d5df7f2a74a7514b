"""Where a rule here repeats one of llama.cpp's, the engine that is installed is asked."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from power.artifact.architectures import DECODERS, NOT_DECODERS
from power.artifact.control import control_texts
from power.artifact.header import Header, read_header
from power.artifact.vocabulary import vocabulary_of
from tests.artifact import engine_facts
from tests.artifact.build import STRING, TOKENS, U32, Gguf, llama, tokenizer

VOCABULARIES: dict[str, tuple[list[str], dict[str, int]]] = {
    "one end": ([], {}),
    "chat": (["<|im_end|>", "<|endoftext|>", "<|im_start|>"], {}),
    "a stated turn": (["<a>", "<b>"], {"eot": 32, "eom": 33}),
    "fill in otherwise": (["<fim_prefix>", "<|code_suffix|>", "▁<MID>", "<PAD>", "<|eom_id|>"], {}),
    "fill in the middle": (["<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|fim_middle|>"], {}),
    "a stated fill-in": (["<|fim_pad|>", "<x>"], {"fim_pad": 33}),
    "harmony": (["<|end|>", "<|call|>", "<|return|>", "<|channel|>"], {}),
    "solar": (["<|end|>", "<|calls|>", "<|flush|>"], {}),
    "a call without a return": (["<|end|>", "<|call|>"], {}),
    "gemma 4": (["<|tool_response>", "<turn|>", "<eos>"], {"eos": 34}),
    "gemma": (["<end_of_turn>", "<eos>"], {}),
    "kimi": (["[EOT]", "[EOS]", "[PAD]"], {}),
    "deepseek": (["<｜end▁of▁sentence｜>"], {}),  # noqa: RUF001 - the token's own characters
    "granite": (["<|end_of_text|>", "<fim_pad>", "<reponame>"], {}),
}


def _model(name: str) -> Gguf:
    texts, special = VOCABULARIES[name]
    gguf = tokenizer(llama(1), [*TOKENS, *texts]).drop("tokenizer.ggml.pre")
    for key, number in special.items():
        gguf.put(f"tokenizer.ggml.{key}_token_id", U32, number)
    return gguf.put("general.name", STRING, name)


def _header(path: Path) -> Header:
    with path.open("rb") as file:
        return read_header(file.fileno(), path.stat().st_size, path.name)


def _ours(path: Path) -> list[object]:
    vocabulary = vocabulary_of(_header(path))
    return [len(vocabulary), sorted(vocabulary.eog)]


def _theirs(paths: list[Path]) -> list[list[Any]]:
    done = subprocess.run(
        [sys.executable, engine_facts.__file__, *map(str, paths)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"GGML_NO_BACKTRACE": "1"},
    )
    answers: list[list[Any]] = json.loads(done.stdout)
    return answers


@pytest.mark.engine
def test_the_set_that_ends_generation_is_the_engines(tmp_path: Path) -> None:
    paths = []
    for index, name in enumerate(VOCABULARIES):
        paths.append(tmp_path / f"{index}.gguf")
        paths[-1].write_bytes(_model(name).encode())
    ours = dict(zip(VOCABULARIES, map(_ours, paths), strict=True))
    theirs = _theirs(paths)
    assert ours == dict(zip(VOCABULARIES, (answer[:2] for answer in theirs), strict=True))
    missed = {
        name: set(answer[2]) - control_texts(_header(path))
        for name, path, answer in zip(VOCABULARIES, paths, theirs, strict=True)
    }
    assert missed == {name: set() for name in VOCABULARIES}


@pytest.mark.engine
def test_the_engine_knows_the_architectures() -> None:
    """Every name is a string constant of the library; nothing is loaded."""
    from importlib.util import find_spec

    spec = find_spec("llama_cpp")
    assert spec is not None
    assert spec.origin is not None
    library = (Path(spec.origin).parent / "lib" / "libllama.so").read_bytes()
    names = DECODERS | NOT_DECODERS.keys()
    assert [name for name in sorted(names) if name.encode() + b"\0" not in library] == []


ROOT = Path(__file__).parents[2]
MODELS = (
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "gemma-3-270m-q4_k_m.gguf",
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
)


@pytest.mark.model
@pytest.mark.engine
@pytest.mark.parametrize("name", MODELS)
def test_real_vocabularies_end_where_the_engine_says(name: str) -> None:
    roots = [Path(p) for p in os.environ.get("POWER_ARTIFACTS", "").split(os.pathsep) if p]
    path = next((r / name for r in (*roots, ROOT / "artifacts") if (r / name).exists()), None)
    if path is None:
        pytest.skip(f"SKIPPED LOUDLY: {name} is not fetched (tools/fetch_models.py)")
    (theirs,) = _theirs([path])
    assert _ours(path) == theirs[:2]
    assert set(theirs[2]) <= control_texts(_header(path))
