"""One JSON object a line, read strictly whatever its size."""

from __future__ import annotations

import json

import pytest

from power.receipt import strict_json
from power.runner.json_line import LineError, json_object


def test_a_key_that_is_given_twice_is_found_among_many() -> None:
    """In time that grows with the line: 300,000 keys would take hours pair by pair."""
    keys = [f'"{number}": 0' for number in range(300_000)]
    with pytest.raises(LineError, match="`299999` is given more than once"):
        json_object(("{" + ", ".join([*keys, keys[-1]]) + "}").encode())
    few = ("{" + ", ".join([*keys[:30_000], keys[29_999]]) + "}").encode()
    with pytest.raises(strict_json.JSONRefusedError, match="`29999` is there twice"):
        strict_json.loads(few)


def test_an_object_is_what_json_says() -> None:
    assert json_object(json.dumps({"a": [1, "é"]}).encode()) == {"a": [1, "é"]}
