"""What breaks a command from outside: full disks, signals, odd places, odd options."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Bench

pytestmark = pytest.mark.engine

PROMPT = "one two three one two three one two"


def shell(bench: Bench, script: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", script.replace("POWER", f'"{sys.executable}" -m power')],
        cwd=bench.folder,
        env=bench.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    "command",
    [
        "show plan.lock",
        "explain",
        "--help",
        "--version",
        "run plan.lock --prompt one",
        "x",
        "x --format json",
    ],
)
def test_a_full_disk_behind_stdout_is_said(ready: Bench, command: str) -> None:
    done = shell(ready, f"POWER {command} > /dev/full")
    assert done.returncode == 2, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"error[P70" in done.stderr
    assert not ready.receipts


def test_a_full_disk_behind_stderr_changes_nothing(ready: Bench) -> None:
    assert shell(ready, "POWER run plan.lock --prompt one 2> /dev/full").returncode == 0


def test_the_bytes_on_stdout_are_the_bytes_that_are_signed(ready: Bench) -> None:
    """Also when the last token ends inside a character."""
    for tokens in range(1, 8):
        run = f"POWER run plan.lock --prompt '😀😃😄' --max-tokens {tokens} --receipt {tokens}.json"
        assert shell(ready, f"{run} > out.txt").returncode == 0
        check = f"POWER verify {tokens}.json --key key.pem.pub --output out.txt"
        done = shell(ready, check)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "option", ["--max-tokens 3", "--seed 7", "--chat", "--prompt x", "--prompt-file x"]
)
def test_a_batch_heeds_or_refuses_every_option(ready: Bench, option: str) -> None:
    ready.write("p.jsonl", '{"prompt": "a"}\n')
    done = shell(ready, f"POWER run plan.lock --prompts p.jsonl --out o.jsonl {option}")
    assert done.returncode == 2
    assert b"error[P704]" in done.stderr
    assert not (ready.folder / "o.jsonl").exists()


def test_chat_without_a_replay_is_refused(ready: Bench) -> None:
    done = shell(ready, "POWER verify r.json --key key.pem.pub --chat")
    assert b"error[P704]" in done.stderr


@pytest.mark.parametrize("name", [".", "''", "/"])
def test_a_key_needs_a_name(bench: Bench, name: str) -> None:
    done = shell(bench, f"POWER key new {name}")
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_key_show_finds_the_public_half(ready: Bench) -> None:
    shown = ready("key", "show", "key.pem")
    assert shown.code == 0
    assert shown.stdout == (ready.folder / "key.pem.pub").read_bytes()


def test_a_place_where_no_receipt_can_go_is_found_before_the_run(ready: Bench) -> None:
    ready.write("receipts", "a file")
    done = ready("run", "plan.lock", "--prompt", "one")
    assert done.code == 2
    assert done.stdout == b""
    assert "error[P441]" in done.stderr


def test_an_encrypted_key_without_a_terminal_takes_nothing_from_stdin(bench: Bench) -> None:
    assert bench("key", "new", env={"POWER_KEY_PASSPHRASE": "secret"}).code == 0
    assert bench("compile", "manifest.toml").code == 0
    done = subprocess.run(
        [sys.executable, "-m", "power", "run", "plan.lock"],
        cwd=bench.folder,
        env=bench.environment(),
        input=b"secret\nprompt",
        capture_output=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 2, done.stderr
    assert b"error[P604]" in done.stderr
    assert b"Warning" not in done.stderr


def test_an_endless_file_is_not_read_to_its_end(ready: Bench) -> None:
    assert ready("run", "plan.lock", "--prompt", "one", "--receipt", "r.json").code == 0
    done = ready("verify", "r.json", "--key", "key.pem.pub", "--output", "/dev/zero")
    assert done.code == 2
    assert "error[P706]" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_every_end_is_an_interruption(ready: Bench, number: signal.Signals) -> None:
    """The prompt never comes: the command waits for it until the signal."""
    reader, writer = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", _ANNOUNCING, "run", "plan.lock"],
        cwd=ready.folder,
        env=ready.environment(),
        stdin=reader,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(number)
        try:
            _, stderr = child.communicate(timeout=60)
        finally:
            child.kill()
    os.close(reader)
    os.close(writer)
    assert child.returncode == 130, stderr
    assert b"Traceback" not in stderr
    assert not ready.receipts


_ANNOUNCING = """
import sys
import power.cli.verbs.run as run
def announce(options):
    print("ready", flush=True)
    return sys.stdin.read()
run.read_prompt = announce
from power.cli.app import run as main
main()
"""


def test_a_home_that_cannot_be_entered_is_no_traceback(ready: Bench, tmp_path: Path) -> None:
    home = tmp_path / ("x" * 300)  # too long a name to look into, even for root
    done = ready("run", "plan.lock", "--prompt", "a", env={"POWER_KEY": str(home / "k.pem")})
    assert done.code in {2, 3}
    assert "error[P" in done.stderr
