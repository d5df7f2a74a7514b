"""Judging a bench: means, the worst prompt, equal outputs, ideals, phases."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tools import bench_speed


def report(ratios: tuple[str, ...] = ("1.5",), output: str = "x", wall: int = 10) -> dict[str, Any]:
    """Two arms on one prompt, a round for each ratio, on a host that slows down by half a round.

    12 tokens in rounds of 4, 4, 2, 1 and 1.
    """
    prompts = [
        {"arm": "control", "prompt": "copy", "output_ids_sha256": "x"},
        {"arm": "plan", "prompt": "copy", "output_ids_sha256": output},
    ]
    sample = {
        "prompt": "copy",
        "rounds": 5,
        "tokens": 12,
        "drafted_by_position": [3, 2, 2],
        "phases_us": {"verify": 7, "other": 3},
        "wall_us": wall,
    }
    samples = []
    for number, ratio in enumerate(ratios, 1):
        host = Fraction(64, 2**number)
        for arm, rate in (("control", host), ("plan", host * Fraction(ratio))):
            samples.append(
                sample | {"round": number, "arm": arm, "decode_tok_s": f"{float(rate):.6f}"}
            )
    arms = [{"name": "control"}, {"name": "plan"}]
    return {"arms": arms, "by_prompt": prompts, "samples": samples}


def test_the_ideal_is_tokens_over_the_cost_of_the_passes() -> None:
    cost = {"1": "1", "2": "1.8", "3": "2.4", "4": "2.9"}
    assert bench_speed.ideals(report(), "plan", cost) == {
        "copy": Fraction(12) / (2 * 1 + Fraction("1.8") + 2 * Fraction("2.9"))
    }


@pytest.mark.parametrize(
    ("found", "met"),
    [
        (report(), 0),
        (report(("0.9", "1.2", "1.2")), 0),  # by the median of pairs, not of rates
        (report(("0.96",)), 1),  # below 0.97
        (report(("1.05",)), 1),  # below the mean that was asked for
        (report(output="y"), 1),
        (report(wall=11), 1),
    ],
)
def test_goals_met_and_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], met: int
) -> None:
    path = tmp_path / "s.bench.json"
    path.write_text(json.dumps(found), "utf-8")
    plots = ["--plots", str(tmp_path / "plots")]
    monkeypatch.setattr("sys.argv", ["bench_speed", str(path), "--mean", "1.10", *plots])
    (tmp_path / "plots").mkdir()
    with pytest.raises(SystemExit) as ended:
        bench_speed.main()
    assert ended.value.code == met
    (plot,) = (tmp_path / "plots").iterdir()
    assert plot.name == "s.bench.svg"
    assert plot.read_text("utf-8").startswith("<svg")
