"""What the engine knows about architectures, as static facts.

Source: llama.cpp as vendored by llama-cpp-python 0.3.36, src/llama-arch.cpp
(names, `llm_arch_is_recurrent`, `llm_arch_is_hybrid`,
`llm_arch_supports_rs_rollback`) and src/models/ (layer inputs, MTP graphs).
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


DECODERS: frozenset[str] = _names(
    """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bailingmoe3 bitnet bloom
    chameleon chatglm codeshell cogvlm cohere2 cohere2moe command-r dbrx deci deepseek deepseek2
    deepseek2-ocr deepseek32 deepseek4 dots1 dots3note ernie4_5 ernie4_5-moe exaone exaone-moe
    exaone4 falcon falcon-h1 gemma gemma2 gemma3 gemma3n gemma4 glm-dsa glm4 glm4moe glm5-next
    gpt-oss gpt2 gptneox granite granite_swa granitehybrid granitemoe graniteswitch grok grovemoe
    hrm_text hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 hy_v4 internlm2 jais jais2 jamba kimi-k3
    kimi-linear laguna lfm2 lfm2moe llama llama4 maincoder mamba mamba2 maple mellum mimo2 minicpm
    minicpm3 minimax-01 minimax-m2 minimax-m3 mistral3 mistral4 mpt muse-glimmer nanbeige nemotron
    nemotron_h nemotron_h_moe olmo olmo2 olmoe openelm orion paddleocr pangu-embedded phi2 phi3
    phimoe plamo plamo2 plamo3 plm qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe
    qwen3next qwen3vl qwen3vlmoe qwen4exp refact rwkv6 rwkv6qwen2 rwkv7 seed_oss smallthinker
    smollm3 spark2_5 stablelm starcoder starcoder2 step35 talkie xverse
    """
)
"""Causal text models: what a target or a draft model may be."""

NOT_DECODERS: dict[str, str] = {
    **dict.fromkeys(
        (
            "bert",
            "eurobert",
            "gemma-embedding",
            "jina-bert-v2",
            "jina-bert-v3",
            "llama-embed",
            "modern-bert",
            "neo-bert",
            "nomic-bert",
            "nomic-bert-moe",
            "t5encoder",
        ),
        "an embedding model or encoder",
    ),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), "a diffusion language model"),
    **dict.fromkeys(("pockettts", "qwen3tts", "wavtokenizer-dec"), "a speech model"),
    "clip": "a vision projector",
    "gptj": "an architecture the engine names but cannot load",
    "t5": "an encoder-decoder",
    "eagle3": "an EAGLE-3 draft head",
    "dflash": "a DFlash, DFlash2 or DSpark draft head",
    "gemma4-assistant": "a draft head for Gemma 4",
}
"""Names that are known, and why they cannot run as a text model of their own."""

RECURRENT: frozenset[str] = _names(
    """
    arwkv7 bailingmoe3 deepseek4 falcon-h1 glm5-next granitehybrid jamba kimi-k3 kimi-linear lfm2
    lfm2moe mamba mamba2 minimax-01 nemotron_h nemotron_h_moe plamo2 qwen35 qwen35moe qwen3next
    qwen4exp rwkv6 rwkv6qwen2 rwkv7
    """
)
"""Recurrent and hybrid models: they keep state that trimming the KV cache cannot roll back."""

ATTENTION_FREE: frozenset[str] = _names(
    """
    arwkv7 mamba mamba2 rwkv6 rwkv6qwen2 rwkv7
    """
)
"""Models without attention heads."""

EQUAL_HEADS: frozenset[str] = _names(
    """
    afmoe apertus arcee arctic baichuan bailingmoe2 bitnet bloom chameleon chatglm codeshell cogvlm
    cohere2 cohere2moe command-r dbrx deci deepseek dots1 ernie4_5 ernie4_5-moe exaone exaone-moe
    exaone4 falcon gemma3 gemma4 glm4 glm4moe gpt2 gptneox granite granite_swa granitehybrid
    graniteswitch grok grovemoe hunyuan-moe hunyuan_vl hy_v3 internlm2 jais jais2 laguna llama
    llama4 maincoder maple mellum minimax-01 minimax-m2 minimax-m3 mistral3 mpt muse-glimmer
    nanbeige nemotron nemotron_h nemotron_h_moe olmo olmo2 olmoe openelm orion paddleocr
    pangu-embedded phi2 phi3 plamo qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe
    qwen3next qwen3vl qwen3vlmoe qwen4exp refact seed_oss smallthinker smollm3 spark2_5 stablelm
    starcoder starcoder2 talkie xverse
    """
)
"""Models whose graphs assert that keys and values have the same length (gemma3: its recipe)."""

FULL_ROTATION: frozenset[str] = _names(
    """
    apertus arcee arctic baichuan chameleon codeshell cogvlm cohere2moe dbrx deci deepseek dots1
    ernie4_5 ernie4_5-moe exaone exaone-moe exaone4 falcon granite granite_swa graniteswitch grok
    grovemoe hunyuan-moe hunyuan_vl hy_v3 internlm2 jais2 llama llama4 maincoder mellum mistral3
    olmo olmo2 olmoe orion paddleocr pangu-embedded plamo qwen2 qwen2moe qwen2vl qwen3 qwen3moe
    qwen3vl qwen3vlmoe seed_oss smallthinker smollm3 starcoder2 talkie xverse
    """
)
"""Models whose loaders or graphs assert that whole heads are rotated."""

SECTIONED: frozenset[str] = _names(
    """
    paddleocr qwen2vl qwen35 qwen35moe qwen3vl qwen3vlmoe qwen4exp
    """
)
"""Models that always rotate by sections: time, height, width and one more."""

EXPERTS_ONLY: frozenset[str] = _names(
    """
    bailingmoe2 glm4moe grovemoe lfm2moe qwen35moe qwen4exp smallthinker
    """
)
"""Models whose loaders assert that there are experts, or divide by how many are used."""

TWICE_AS_WIDE_INSIDE: frozenset[str] = _names("granitehybrid jamba")
"""Hybrids whose loaders assert that the state space is twice as wide as the model."""

LAYER_INPUTS: frozenset[str] = _names(
    """
    bailingmoe3 deepseek4 gemma4 gpt-oss hunyuan_vl lfm2 llama mimo2 minimax-01 minimax-m2
    muse-glimmer nanbeige nemotron_h qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen4exp
    """
)
"""Targets whose graphs expose the input of inner layers, which feature drafts read.

Any other target ends the engine's process at the first decode.
"""

LAYER_INPUT_AFTER_LAST: frozenset[str] = frozenset({"deepseek4", "mimo2", "nemotron_h"})
"""Of those, the ones that also expose the output of the last layer, as input number `layers`."""

NATIVE_PREDICTION: frozenset[str] = frozenset({"qwen35"})
"""Targets whose native multi-token prediction block has a contract here."""
