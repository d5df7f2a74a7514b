"""`power run` and `power verify`, end to end on a tiny model in the real engine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CORPUS, Bench, Result, manifest_for

pytestmark = pytest.mark.engine

Snapshot = Callable[[Result], None]
PROMPT = "one two three one two three one two"


def _receipt(path: Path) -> Any:
    import base64

    bundle = json.loads(path.read_bytes())
    return json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))


def test_from_a_plan_to_a_verified_receipt(ready: Bench) -> None:
    run = ready("run", "plan.lock", "--prompt", PROMPT)
    assert run.code == 0
    (receipt,) = ready.receipts
    (ready.folder / "out.txt").write_bytes(run.stdout)
    name = str(receipt.relative_to(ready.folder))
    checks = ("--key", "key.pem.pub", "--plan", "plan.lock", "--output", "out.txt")
    verified = ready("verify", name, *checks, "--artifacts", ".")
    assert verified.code == 0
    assert "verified: signature, consistency, plan, output, artifacts" in verified.stderr
    replayed = ready("verify", name, *checks, "--replay", "--prompt", PROMPT)
    assert replayed.code == 0, replayed.stderr
    assert "replay" in replayed.stderr


def test_a_setting_without_effect_is_named(ready: Bench) -> None:
    """On the screen, in the JSON object and in the receipt."""
    ready.edit("manifest.toml", "threads = 1", "threads = 1\ncuda_high_priority = true")
    assert ready("compile", "manifest.toml", "-o", "high.lock").code == 0
    note = "`host.cuda_high_priority`: no effect, llama.cpp makes its CUDA streams"
    assert f"\nnote    {note}" in ready("run", "high.lock", "--prompt", PROMPT).stderr
    (told,) = ready("run", "high.lock", "--prompt", PROMPT, "--format", "json").json["notes"]
    assert told.startswith(note)
    for receipt in ready.receipts:
        assert _receipt(receipt)["predicate"]["execution"]["notes"] == [told]


def test_speculation_happened_and_is_counted(ready: Bench) -> None:
    assert ready("run", "plan.lock", "--prompt", PROMPT).code == 0
    predicate = _receipt(ready.receipts[0])["predicate"]
    assert predicate["execution"]["strategy"] == "prompt-lookup"
    assert predicate["execution"]["drafted"] > 0


def test_a_control_run_claims_the_same(ready: Bench) -> None:
    runs = [
        ready("run", "plan.lock", "--prompt", PROMPT, "--format", "json", *more).json
        for more in ((), (), ("--control",))
    ]
    assert runs[0]["text"] == runs[2]["text"]
    assert len({run["claim_sha256"] for run in runs}) == 1
    assert [run["strategy"] for run in runs] == ["prompt-lookup", "prompt-lookup", "off"]
    assert runs[2]["drafted"] == 0


def test_the_prompt_may_come_from_a_file_or_a_pipe(ready: Bench) -> None:
    ready.write("prompt.txt", PROMPT)
    ways = (
        ready("run", "plan.lock", "--prompt", PROMPT),
        ready("run", "plan.lock", "--prompt-file", "prompt.txt"),
        ready("run", "plan.lock", stdin=PROMPT.encode()),
    )
    assert [way.code for way in ways] == [0, 0, 0]
    assert len({way.stdout for way in ways}) == 1


def test_no_key(bench: Bench, snapshot_of: Snapshot) -> None:
    assert bench("compile", "manifest.toml").code == 0
    snapshot_of(bench("run", "plan.lock", "--prompt", "x"))
    assert not bench.receipts


def test_a_key_that_others_can_read(ready: Bench, snapshot_of: Snapshot) -> None:
    (ready.folder / "key.pem").chmod(0o644)
    snapshot_of(ready("run", "plan.lock", "--prompt", "x"))


def test_an_edited_plan(ready: Bench, snapshot_of: Snapshot) -> None:
    ready.edit("plan.lock", "max_tokens = 48", "max_tokens = 99")
    snapshot_of(ready("run", "plan.lock", "--prompt", "x"))


def test_an_artifact_that_changed(ready: Bench, snapshot_of: Snapshot) -> None:
    path = ready.folder / "target.gguf"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    snapshot_of(ready("run", "plan.lock", "--prompt", "x"))
    assert not ready.receipts


def test_an_artifact_that_grew(ready: Bench, snapshot_of: Snapshot) -> None:
    with (ready.folder / "target.gguf").open("ab") as file:
        file.write(b"\0")
    snapshot_of(ready("run", "plan.lock", "--prompt", "x"))


def test_a_plan_for_another_engine(ready: Bench) -> None:
    """Compiled for a version that is not installed: refused although the digest is right."""
    from power.plan.lock import dumps, load, seal

    plan = load(ready.folder / "plan.lock")
    body = plan.body()
    body["engine"]["version"] = "0.3.35"
    ready.write("plan.lock", dumps(seal(body)))
    result = ready("run", "plan.lock", "--prompt", "x")
    assert result.code == 3
    assert "0.3.35" in result.stderr
    assert "0.3.36" in result.stderr


def test_a_level_without_a_certificate(bench: Bench, snapshot_of: Snapshot) -> None:
    bench.write(
        "manifest.toml",
        (bench.folder / "manifest.toml").read_text() + '\n[exactness]\nlevel = "serial"\n',
    )
    assert bench("key", "new").code == 0
    assert bench("compile", "manifest.toml").code == 0
    snapshot_of(bench("run", "plan.lock", "--prompt", "x"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--prompt", "x", "--max-tokens", "49"),
        ("--prompt", ""),
        ("--prompt", "x", "--prompt-file", "y"),
        ("--prompt", "x", "--system", "y"),
        ("--prompt-file", "absent.txt"),
        ("--prompts", "p.jsonl"),
        ("--prompt", "x" * 500),
        ("--max-tokens", "0"),
        ("--prompt", "x", "--seed", "-1"),
    ],
    ids=lambda a: "-".join(a)[:40].replace(" ", ""),
)
def test_requests_that_are_refused(
    ready: Bench, snapshot_of: Snapshot, arguments: tuple[str, ...]
) -> None:
    snapshot_of(ready("run", "plan.lock", *arguments))
    assert not ready.receipts


def test_a_chat_goes_through_the_models_own_template(ready: Bench) -> None:
    chat = ready(
        "run", "plan.lock", "--prompt", "hi", "--chat", "--system", "s", "--format", "json"
    )
    plain = ready("run", "plan.lock", "--prompt", "hi", "--format", "json")
    assert (chat.code, plain.code) == (0, 0), chat.stderr
    assert chat.json["prompt_tokens"] > plain.json["prompt_tokens"]


@pytest.mark.parametrize("name", ["template-dos", "template-ssti-2", "template-syntax"])
def test_a_hostile_template_is_refused_and_a_plain_prompt_runs(bench: Bench, name: str) -> None:
    (bench.folder / "target.gguf").write_bytes((CORPUS / f"{name}.gguf").read_bytes())
    bench.write("manifest.toml", manifest_for(bench.folder / "target.gguf"))
    assert bench("key", "new").code == 0
    assert bench("compile", "manifest.toml").code == 0
    chat = bench("run", "plan.lock", "--prompt", "hi", "--chat")
    assert chat.code == 2
    assert "tokenizer.chat_template" in chat.stderr
    assert not bench.receipts
    assert bench("run", "plan.lock", "--prompt", "hi").code == 0


def test_a_prompt_that_is_not_utf8(ready: Bench, snapshot_of: Snapshot) -> None:
    snapshot_of(ready("run", "plan.lock", stdin=b"ab\xffcd"))


def test_a_silent_worker_is_ended(ready: Bench) -> None:
    result = ready("run", "plan.lock", "--prompt", "x", env={"POWER_WORKER_TIMEOUT": "0.001"})
    assert result.code == 4
    assert "error[P503]" in result.stderr
    assert not ready.receipts


def test_weights_that_are_not_numbers(bench: Bench, snapshot_of: Snapshot) -> None:
    (bench.folder / "target.gguf").write_bytes((CORPUS / "weights-nan.gguf").read_bytes())
    bench.write("manifest.toml", manifest_for(bench.folder / "target.gguf"))
    assert bench("key", "new").code == 0
    assert bench("compile", "manifest.toml").code == 0
    result = bench("run", "plan.lock", "--prompt", "x")
    assert result.code == 2
    assert "output_norm.weight" in result.stderr
    assert not bench.receipts


def test_a_reader_that_goes_away_is_no_crash(ready: Bench) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "power", "run", "plan.lock", "--prompt", PROMPT],
        cwd=ready.folder,
        env=ready.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        stderr = child.stderr.read()
        child.wait(120)
    assert b"Traceback" not in stderr
    assert child.returncode == 130
    assert not ready.receipts


def test_a_batch_answers_each_prompt_once(ready: Bench) -> None:
    prompts = [{"id": f"p{i}", "prompt": f"{PROMPT} {i}", "max_tokens": 8} for i in range(3)]
    ready.write("in.jsonl", "".join(json.dumps(p) + "\n" for p in prompts))
    first = ready("run", "plan.lock", "--prompts", "in.jsonl", "--out", "out.jsonl")
    again = ready("run", "plan.lock", "--prompts", "in.jsonl", "--out", "out.jsonl")
    assert (first.code, again.code) == (0, 0), first.stderr + again.stderr
    answers = [json.loads(x) for x in (ready.folder / "out.jsonl").read_text().splitlines()]
    assert [a["id"] for a in answers] == ["p0", "p1", "p2"]
    assert len(ready.receipts) == 3
    assert "3 of 3" in again.stderr


def test_remarks_begin_a_line_where_the_text_goes_too(ready: Bench) -> None:
    """One place for both streams: the text keeps its bytes, and what follows is readable."""
    script = f'"{sys.executable}" -m power run plan.lock --prompt one --max-tokens 1'
    both, apart = (
        subprocess.run(
            ["bash", "-c", script + more],
            cwd=ready.folder,
            env=ready.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        for more in (" 2>&1", "")
    )
    assert both.stdout.startswith(apart.stdout + b"\n1 token in ")
    assert apart.stderr.startswith(b"1 token in ")
    assert b"tokens/s" not in apart.stderr  # one token tells no rate


def test_two_runs_do_not_share_a_receipt(ready: Bench) -> None:
    arguments = ("run", "plan.lock", "--prompt", PROMPT, "--receipt", "r.json")
    assert ready(*arguments).code == 0
    before = (ready.folder / "r.json").read_bytes()
    again = ready(*arguments)
    assert again.code == 2
    assert again.stdout == b""  # refused before it ran
    assert (ready.folder / "r.json").read_bytes() == before


def test_verify_needs_a_key_from_outside(ready: Bench, snapshot_of: Snapshot) -> None:
    assert ready("run", "plan.lock", "--prompt", PROMPT, "--receipt", "r.json").code == 0
    snapshot_of(ready("verify", "r.json"))


def test_verify_with_another_key(ready: Bench, snapshot_of: Snapshot) -> None:
    assert ready("run", "plan.lock", "--prompt", PROMPT, "--receipt", "r.json").code == 0
    assert ready("key", "new", "other.pem", "--kind", "p256").code == 0
    snapshot_of(ready("verify", "r.json", "--key", "other.pem.pub"))


def test_verify_another_output(ready: Bench, snapshot_of: Snapshot) -> None:
    assert ready("run", "plan.lock", "--prompt", PROMPT, "--receipt", "r.json").code == 0
    ready.write("out.txt", "something else")
    result = ready("verify", "r.json", "--key", "key.pem.pub", "--output", "out.txt")
    assert result.code == 3
    assert "error[P631]" in result.stderr


def test_replay_with_another_prompt(ready: Bench) -> None:
    assert ready("run", "plan.lock", "--prompt", PROMPT, "--receipt", "r.json").code == 0
    result = ready(
        "verify", "r.json", "--key", "key.pem.pub", "--plan", "plan.lock", "--replay",
        "--prompt", "another",
    )  # fmt: skip
    assert "error[P640]" in result.stderr
    assert result.code == 2


def test_verify_by_a_trust_file(ready: Bench) -> None:
    assert ready("run", "plan.lock", "--prompt", PROMPT, "--receipt", "r.json").code == 0
    ready.write("trust.toml", 'schema = 1\n\n[key.mine]\npublic_key = "key.pem.pub"\n')
    assert ready("verify", "r.json", "--trust", "trust.toml").code == 0
    ready.edit(
        "trust.toml",
        '"key.pem.pub"\n',
        '"key.pem.pub"\nrevoked = { at = 2026-01-01T00:00:00Z, reason = "lost" }\n',
    )
    revoked = ready("verify", "r.json", "--trust", "trust.toml")
    assert revoked.code == 3
    assert "lost" in revoked.stderr


def test_a_locale_that_is_not_utf8_changes_nothing(ready: Bench) -> None:
    plain = ready("run", "plan.lock", "--prompt", "ünï")
    odd = ready("run", "plan.lock", "--prompt", "ünï", env={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert plain.stdout == odd.stdout
    assert odd.code == 0


def test_a_stop_sequence_is_replayed(ready: Bench) -> None:
    stop = ("--stop", "zz", "--stop", "aa")
    arguments = ("run", "plan.lock", "--prompt", PROMPT, "--receipt", "r.json", *stop)
    assert ready(*arguments).code == 0
    checks = ("verify", "r.json", "--key", "key.pem.pub", "--plan", "plan.lock", "--replay")
    again = ready(*checks, "--prompt", PROMPT, *stop)
    assert again.code == 0, again.stderr
    without = ready(*checks, "--prompt", PROMPT)
    assert without.code == 2
    assert "every `--stop` of the run" in without.stderr


def test_every_line_of_a_batch_is_replayed(ready: Bench) -> None:
    """Also with options of its own, and a conversation that no options could spell."""
    talk = [
        {"role": role, "content": text}
        for role, text in (("user", "a"), ("assistant", "b</s>"), ("user", "c"))
    ]
    lines = (
        {"prompt": PROMPT, "max_tokens": 5, "stop": ["qq"]},
        {"prompt": PROMPT, "seed": 7},
        {"messages": talk, "max_tokens": 4, "id": "talk"},
    )
    ready.write("p.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    done = ready("run", "plan.lock", "--prompts", "p.jsonl", "--out", "o.jsonl")
    assert done.code == 0, done.stderr
    checks = ("--key", "key.pem.pub", "--plan", "plan.lock", "--replay", "--prompts")
    for receipt in ready.receipts:
        again = ready("verify", str(receipt), *checks, "p.jsonl")
        assert again.code == 0, again.stderr
    ready.write("q.jsonl", '{"prompt": "another"}\n')
    other = ready("verify", str(ready.receipts[0]), *checks, "q.jsonl")
    assert other.code == 2
    assert "error[P640]" in other.stderr


def test_a_control_token_that_is_typed_is_no_control_token(ready: Bench) -> None:
    said, typed = (
        ready("run", "plan.lock", "--chat", "--format", "json", "--prompt", prompt).json
        for prompt in ("hi", "hi</s>")
    )
    assert typed["prompt_tokens"] > said["prompt_tokens"] + 1


@pytest.mark.parametrize("more", [("--prompt", "a"), ("--stop", "a"), ()])
def test_prompts_of_a_batch_stand_alone(ready: Bench, more: tuple[str, ...]) -> None:
    replay = ("--replay",) if more else ()
    done = ready(
        "verify", "r.json", "--key", "key.pem.pub", "--plan", "plan.lock", *replay,
        "--prompts", "p.jsonl", *more,
    )  # fmt: skip
    assert done.code == 2
    assert "error[P704]" in done.stderr
