"""Is speculation never slower than `off`, and faster where it can be? Judge a bench by prompts.

    power tune MANIFEST -o DIR/tuned.toml
    power compile MANIFEST --profile DIR/tuned.toml -o DIR/tuned.lock
    power bench DIR/tuned.lock --control --natural -o DIR/speed.bench.json
        --prompts templates/prompts/tuning.jsonl
    python -m tools.bench_speed DIR/speed.bench.json [--tuned DIR/tuned.tune.json] [--mean 1.10]
        [--plots DIR]

The bench alternates arms and signs every sample; its control arm is `off` where the
shape is natural. Here each sample is held against the control's of the same round, so a
host that grows slower under way slows both: a prompt's speed-up is the median over rounds.
Shown are the geometric mean over prompts with its bootstrap interval, the worst prompt,
equal outputs, phases that add up to the wall. With `--tuned`, rates are also held against
the ideal: the tokens of the rounds over what their passes cost on the measured curve. With
`--plots`, speed by prompt and the curve are drawn in that folder. Exit 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from power.evidence.plot import bars, curve
from power.evidence.statistics import bootstrap, median

WORST = Fraction(97, 100)
IDEAL = Fraction(95, 100)
COPYING = ("copy", "edit", "log")


def rates(report: dict[str, Any], arm: str) -> dict[tuple[str, int], Fraction]:
    """Steady rates of an arm by prompt and round, where there is one."""
    return {
        (one["prompt"], one["round"]): Fraction(one["decode_tok_s"])
        for one in report["samples"]
        if one["arm"] == arm and "decode_tok_s" in one
    }


def paired(
    control: dict[tuple[str, int], Fraction], mine: dict[tuple[str, int], Fraction]
) -> dict[str, Fraction]:
    """By prompt, the median over rounds of one rate over the other."""
    ratios: dict[str, list[Fraction]] = {}
    for (prompt, number), rate in mine.items():
        if (prompt, number) in control:
            ratios.setdefault(prompt, []).append(rate / control[prompt, number])
    return {prompt: median(found) for prompt, found in ratios.items()}


def unequal(report: dict[str, Any]) -> list[str]:
    """Prompts whose outputs are not those of the control, and in which arm."""
    first = report["arms"][0]["name"]
    digests = {(p["arm"], p["prompt"]): p["output_ids_sha256"] for p in report["by_prompt"]}
    return [f"{p} in {arm}" for (arm, p), d in digests.items() if d != digests[first, p]]


def unaccounted(report: dict[str, Any]) -> int:
    """Samples whose phases do not add up to their wall."""
    return sum(sum(s["phases_us"].values()) != s["wall_us"] for s in report["samples"])


def ideals(report: dict[str, Any], arm: str, cost: dict[str, str]) -> dict[str, Fraction]:
    """By prompt, tokens over the modelled cost of the passes that gave them."""
    found: dict[str, Fraction] = {}
    for sample in report["samples"]:
        if sample["arm"] != arm or sample["prompt"] in found:
            continue
        reached = [sample["rounds"], *sample["drafted_by_position"], 0]
        # Rounds that drafted exactly k tokens: those that reached k less those that went on.
        passes = [a - b for a, b in pairwise(reached)]
        spent = sum(count * Fraction(cost[str(k + 1)]) for k, count in enumerate(passes) if count)
        found[sample["prompt"]] = Fraction(sample["tokens"]) / spent
    return found


def judge(report: dict[str, Any], arm: str, mean: Fraction) -> tuple[bool, dict[str, Fraction]]:
    """Print one arm against the control; whether it meets its goals, and its speed-ups."""
    speed_ups = paired(rates(report, report["arms"][0]["name"]), rates(report, arm))
    interval = bootstrap(list(speed_ups.values()))
    worst = min(speed_ups, key=lambda p: speed_ups[p])
    print(
        f"{arm}: {interval.mean} [{interval.low}, {interval.high}] of {report['arms'][0]['name']}"
    )
    print(f"  worst {float(speed_ups[worst]):.3f} on {worst} (goal {float(WORST)})")
    for prompt, ratio in speed_ups.items():
        print(f"  {prompt:<20}{float(ratio):>8.3f}")
    return speed_ups[worst] >= WORST and Fraction(interval.mean) >= mean, speed_ups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--tuned", type=Path)
    parser.add_argument("--mean", type=Fraction, default=Fraction(1))
    parser.add_argument("--plots", type=Path)
    options = parser.parse_args()
    report = json.loads(options.report.read_text("utf-8"))
    good = True
    series = {}
    cost = json.loads(options.tuned.read_text("utf-8"))["cost"]["rows"] if options.tuned else None
    for arm in report["arms"][1:]:
        met, series[arm["name"]] = judge(report, arm["name"], options.mean)
        good &= met
        if cost is not None:
            ideal = ideals(report, arm["name"], cost)
            reached = {p: s / ideal[p] for p, s in series[arm["name"]].items()}
            for prompt in (p for p in reached if p.startswith(COPYING)):
                print(
                    f"  {prompt}: {float(reached[prompt]):.3f} of E/v(rows) (goal {float(IDEAL)})"
                )
                good &= reached[prompt] >= IDEAL
    other, lost = unequal(report), unaccounted(report)
    print(f"outputs equal to the control's: {'all' if not other else f'not {other}'}")
    print(f"samples whose phases are not their wall: {lost}")
    if options.plots is not None:
        plots = {".svg": bars("Steady rate over target-only, by prompt", series)}
        if cost is not None:
            points = [(int(rows), Fraction(spent)) for rows, spent in cost.items()]
            plots[".curve.svg"] = curve("What a pass costs by its rows", points)
        for suffix, plot in plots.items():
            place = options.plots / options.report.with_suffix(suffix).name
            place.write_text(plot, "utf-8")
    sys.exit(0 if good and not other and not lost else 1)


if __name__ == "__main__":
    main()
