"""What a context takes in memory, from header facts; tests/engine asks the engine the same."""

import pytest

from power.artifact.memory import Footprint, footprint
from tests.artifact import build
from tests.artifact.conftest import Read

CELL = build.HEADS * build.HEAD * 2 * 2  # keys and values of one layer, float16
# The convolution keeps 3 of 4 columns of 16 + 2 * 8, the delta rule an 8 x 16 matrix.
STATE = 4 * (3 * 32 + 8 * 16)


def test_a_pure_cache_grows_by_the_token(read: Read) -> None:
    assert footprint(read(build.llama(3))) == Footprint(cell=3 * CELL)


def test_a_hybrid_has_a_state_and_a_cache_of_its_attention_blocks(read: Read) -> None:
    assert footprint(read(build.qwen35(0))) == Footprint(cell=CELL, state=STATE)


def test_a_prediction_block_has_a_cache_of_its_own(read: Read) -> None:
    assert footprint(read(build.qwen35(1))) == Footprint(CELL, CELL, STATE)


def test_layers_may_differ_in_heads(read: Read) -> None:
    gguf = build.sizes(build.Gguf(), "deci", 3)  # some of its layers do without attention
    for key in ("head_count", "head_count_kv"):
        gguf.put_array(f"deci.attention.{key}", build.U32, [4, 0, 2])
    found = footprint(read(gguf))
    assert found is not None
    assert found.cell == CELL + CELL // 2


@pytest.mark.parametrize("architecture", ["mamba2", "lfm2"])
def test_other_recurrent_states_are_not_guessed(read: Read, architecture: str) -> None:
    assert footprint(read(build.sizes(build.Gguf(), architecture, 2))) is None


def test_latent_attention_is_not_guessed(read: Read) -> None:
    gguf = build.llama().put("llama.attention.kv_lora_rank", build.U32, 64)
    assert footprint(read(gguf)) is None
