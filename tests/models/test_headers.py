"""The headers of real models: judged right, and at the price that was promised."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from power.artifact.contracts.pair import check_pair
from power.artifact.opened import OpenArtifact
from power.artifact.target import check_target

ROOT = Path(__file__).parents[2]
SMOL = "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = "gemma-3-270m-q4_k_m.gguf"
QWEN = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
SMALL_QWEN = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"

pytestmark = pytest.mark.model


def _folder(*names: str) -> Path:
    roots = [Path(p) for p in os.environ.get("POWER_ARTIFACTS", "").split(os.pathsep) if p]
    for root in (*roots, ROOT / "artifacts"):
        if all((root / name).exists() for name in names):
            return root
    pytest.skip(f"SKIPPED LOUDLY: {', '.join(names)} not fetched (tools/fetch_models.py)")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (SMOL, ("llama", "MOSTLY_Q4_1", 30, 576, 49_152, 8192, "gpt2", "smollm")),
        (GEMMA, ("gemma3", "MOSTLY_Q4_K_M", 18, 640, 262_144, 32_768, "llama", "default")),
        (QWEN, ("qwen2", "MOSTLY_Q4_K_M", 28, 1536, 151_936, 32_768, "gpt2", "qwen2")),
        (SMALL_QWEN, ("qwen2", "MOSTLY_Q4_K_M", 24, 896, 151_936, 32_768, "gpt2", "qwen2")),
    ],
)
def test_a_real_target(name: str, expected: tuple[object, ...]) -> None:
    with OpenArtifact.open(name, [_folder(name)]) as artifact:
        facts = check_target(artifact.header)
    assert (
        facts.architecture,
        facts.file_type,
        facts.layers,
        facts.width,
        facts.vocabulary,
        facts.context,
        facts.tokenizer_model,
        facts.pre_tokenizer,
    ) == expected
    assert (facts.recurrent, facts.nextn_layers) == (False, 0)


def test_the_qwen_pair_differs_in_the_chat_template_only() -> None:
    root = _folder(QWEN, SMALL_QWEN)
    with (
        OpenArtifact.open(SMALL_QWEN, [root]) as draft,
        OpenArtifact.open(QWEN, [root]) as target,
    ):
        (note,) = check_pair("draft-model", draft.header, target.header).notes
        assert "tokenizer.chat_template" in note
        ours, theirs = check_target(draft.header), check_target(target.header)
    assert ours.vocabulary_sha256 == theirs.vocabulary_sha256
    assert ours.chat_template_sha256 != theirs.chat_template_sha256


@pytest.mark.parametrize("name", [SMOL, GEMMA, QWEN])
def test_a_header_costs_less_than_80_mebibytes(name: str) -> None:
    """The whole process, interpreter and all; the gguf package takes up to 717."""
    code = (
        "import os, sys; from pathlib import Path; from power.artifact.header import read_header;"
        "fd = os.open(sys.argv[1], os.O_RDONLY);"
        "read_header(fd, os.fstat(fd).st_size, 'm');"
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    path = _folder(name) / name
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 80 * 1024
