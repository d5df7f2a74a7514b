"""What libllama itself says about GGUFs, printed as JSON: run as a script, one process for all.

`python engine_facts.py FILE…` prints for each file [tokens, ids that end generation, texts of
control and unknown tokens].
"""

import json
import sys

from llama_cpp import llama_cpp as native

UNKNOWN_OR_CONTROL = 1 | 8  # llama_token_attr


def facts(path: str) -> tuple[int, list[int], list[str]]:
    """Load the vocabulary of a GGUF, no tensors, and ask for every id."""
    params = native.llama_model_default_params()
    params.vocab_only = True
    model = native.llama_model_load_from_file(path.encode(), params)
    assert model, path
    vocabulary = native.llama_model_get_vocab(model)
    count = native.llama_vocab_n_tokens(vocabulary)
    ends = [index for index in range(count) if native.llama_vocab_is_eog(vocabulary, index)]
    control = [
        native.llama_vocab_get_text(vocabulary, index).decode()
        for index in range(count)
        if native.llama_vocab_get_attr(vocabulary, index) & UNKNOWN_OR_CONTROL
    ]
    native.llama_model_free(model)
    return count, ends, control


if __name__ == "__main__":
    json.dump([facts(path) for path in sys.argv[1:]], sys.stdout)
