"""Tensors read past the vocabulary are those that the `gguf` package reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from gguf.quants import dequantize, quantize

from power.backends.llamacpp.tensor_file import find_tensors

VALUES = np.random.default_rng(3).standard_normal((48, 256)).astype(np.float32)
TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_1")


def written(path: Path, kind: gguf.GGMLQuantizationType, alignment: int) -> npt.NDArray[np.uint8]:
    """A file with one matrix among others, behind keys of every type; its quantised bytes."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(alignment)
    for index, value in enumerate((gguf.GGUFValueType.UINT8, gguf.GGUFValueType.FLOAT64)):
        writer.add_key_value(f"number.{index}", 7, value)
    writer.add_key_value("flag", 1, gguf.GGUFValueType.BOOL)
    writer.add_array("words", ["", "a", "ü" * 40])
    writer.add_array("numbers", [1, 2, 3])
    data = quantize(VALUES, kind)
    writer.add_tensor("before", np.ones(5, np.float32))
    writer.add_tensor("wanted.weight", data, raw_dtype=kind)
    writer.add_tensor("behind", np.ones((2, 3), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return np.ascontiguousarray(data)


@pytest.mark.parametrize("alignment", [32, 128])
@pytest.mark.parametrize("name", TYPES)
def test_rows_are_the_first_rows(tmp_path: Path, name: str, alignment: int) -> None:
    kind = gguf.GGMLQuantizationType[name]
    data = written(tmp_path / "m.gguf", kind, alignment)
    with (tmp_path / "m.gguf").open("rb") as file:
        found = find_tensors(file.fileno(), lambda tensor: tensor.startswith("wanted"))
        assert list(found) == ["wanted.weight"]
        tensor = found["wanted.weight"]
        assert (tensor.shape, tensor.type) == ((48, 256), kind)
        for rows in (1, 17, 48):
            assert np.array_equal(tensor.first_rows(rows), dequantize(data, kind)[:rows])
        numbers = np.array([47, 0, 12, 13], np.int64)
        assert np.array_equal(tensor.rows(numbers), dequantize(data, kind)[numbers])


def test_the_numbers_of_a_list(models: Mapping[str, tuple[Path, ...]]) -> None:
    (path,) = models["mtp-d2t"]
    (expected,) = gguf.GGUFReader(path).tensors
    with path.open("rb") as file:
        found = find_tensors(file.fileno(), lambda _: True)["d2t"].integers()
    assert found.dtype == np.int64
    assert np.array_equal(found, expected.data)


def test_every_tensor_of_a_model_is_found(models: Mapping[str, tuple[Path, ...]]) -> None:
    (path,) = models["qwen35"]
    expected = {t.name: t for t in gguf.GGUFReader(path).tensors}
    with path.open("rb") as file:
        found = find_tensors(file.fileno(), lambda _: True)
    assert set(found) == set(expected)
    assert all(found[name].offset == tensor.data_offset for name, tensor in expected.items())
