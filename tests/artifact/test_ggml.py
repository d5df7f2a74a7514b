"""The static tables are those of the gguf package and of the engine."""

import subprocess
import sys

import gguf
from gguf.constants import MODEL_ARCH_NAMES

from power.artifact import architectures
from power.artifact.ggml import FILE_TYPES, REMOVED_TENSOR_TYPES, TENSOR_TYPES


def test_tensor_types_are_those_of_the_gguf_package() -> None:
    ours = {number: (kind.name, kind.block, kind.bytes) for number, kind in TENSOR_TYPES.items()}
    theirs = {kind.value: (kind.name, *size) for kind, size in gguf.GGML_QUANT_SIZES.items()}
    assert ours == theirs


def test_removed_types_are_not_known_ones() -> None:
    assert not REMOVED_TENSOR_TYPES.keys() & TENSOR_TYPES.keys()


def test_file_types_are_those_of_the_gguf_package() -> None:
    assert {kind.value: kind.name for kind in gguf.LlamaFileType} == FILE_TYPES


def test_every_architecture_of_the_gguf_package_is_placed() -> None:
    """A new name there must be looked at: a text model, or not, and why."""
    known = architectures.DECODERS | architectures.NOT_DECODERS.keys()
    assert set(MODEL_ARCH_NAMES.values()) - known == set()


def test_the_sets_of_architectures_fit_together() -> None:
    decoders = architectures.DECODERS
    assert not decoders & architectures.NOT_DECODERS.keys()
    assert decoders > architectures.RECURRENT
    assert decoders > architectures.LAYER_INPUTS
    assert architectures.ATTENTION_FREE < architectures.RECURRENT
    assert architectures.LAYER_INPUT_AFTER_LAST < architectures.LAYER_INPUTS
    assert decoders > architectures.NATIVE_PREDICTION


def test_reading_headers_imports_neither_numpy_nor_gguf() -> None:
    code = (
        "import sys, power.artifact.inspection, power.artifact.sealing;"
        "print([name for name in ('numpy', 'gguf', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
