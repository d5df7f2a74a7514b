"""What breaks a command from outside: full disks, signals, odd places, odd options."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
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


def ended_by(child: subprocess.Popen[bytes], number: signal.Signals) -> tuple[bytes, bytes]:
    """What a child still wrote that `number` ends, sent again as an impatient user would.

    Python hears a signal that comes just before a read only when the read is over.
    """
    try:
        for _ in range(60):
            child.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                return child.communicate(timeout=1)
    finally:
        child.kill()
    raise AssertionError(f"{number.name} was not heard")


def interrupted(
    bench: Bench, program: str, number: signal.Signals
) -> subprocess.CompletedProcess[bytes]:
    """A run in `program` that waits, once it has said `ready`, until `number` ends it.

    Nothing ever comes from its standard input, which is not closed either.
    """
    reader, writer = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", program, "run", "plan.lock"],
        cwd=bench.folder,
        env=bench.environment(),
        stdin=reader,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        stdout, stderr = ended_by(child, number)
    os.close(reader)
    os.close(writer)
    assert child.returncode == 130, stderr
    return subprocess.CompletedProcess(child.args, child.returncode, stdout, stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_every_end_is_an_interruption(ready: Bench, number: signal.Signals) -> None:
    """The prompt never comes: the command waits for it until the signal."""
    assert b"Traceback" not in interrupted(ready, _ANNOUNCING, number).stderr
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


def test_what_cannot_be_told_is_not_signed(ready: Bench) -> None:
    for out in ("| true", "> /dev/full", ">&-"):
        run = "POWER run plan.lock --prompt one --receipt r.json --format json"
        done = shell(ready, f"set -o pipefail; {run} {out}")
        assert done.returncode in {2, 130}, out
        assert not (ready.folder / "r.json").exists(), out


def test_data_for_a_closed_stdout_is_not_lost_in_silence(ready: Bench) -> None:
    done = shell(ready, "POWER show plan.lock >&-")
    assert done.returncode == 2
    assert b"error[P708]" in done.stderr


def test_the_end_of_a_reader_is_told_where_it_costs_the_receipt(ready: Bench) -> None:
    done = shell(ready, "POWER run plan.lock --prompt 'one two one two' | true")
    assert b"no receipt was written" in done.stderr
    assert not ready.receipts


def test_an_interruption_waits_for_the_end_of_an_import(ready: Bench) -> None:
    """What an import runs may swallow it, as native code does that builds a class."""
    ready.write("slow.py", _SLOW)
    assert interrupted(ready, _IMPORTING, signal.SIGINT).stdout == b"over\n"
    assert not ready.receipts


def test_a_launcher_that_is_an_import_itself_can_be_interrupted(ready: Bench) -> None:
    ready.write("launcher.py", _ANNOUNCING)
    interrupted(ready, "import launcher", signal.SIGTERM)


def test_a_signal_that_waited_is_heard_by_whoever_listens_by_then(bench: Bench) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WAITED], capture_output=True, check=False, env=bench.environment()
    )
    assert (done.returncode, done.stdout) == (0, b"cancelled\n"), done.stderr


_WAITED = """
import signal, time
from power.cli import signals
signals.end_like_interrupts()
signals._waiting.append(signal.SIGINT)  # as if it had come in an import, just before
signal.setitimer(signal.ITIMER_REAL, 0.01)
heard = []
with signals.on_interrupt(lambda: heard.append("cancelled")):
    while not heard:
        time.sleep(0.01)
print(*heard)
"""
_SLOW = """
import time
print("ready", flush=True)
try:
    time.sleep(1)
except KeyboardInterrupt:
    print("swallowed", flush=True)
print("over", flush=True)
"""
_IMPORTING = """
import sys, time
import power.cli.verbs.run as run
def announce(options):
    import slow
    time.sleep(60)
run.read_prompt = announce
from power.cli.app import run as main
main()
"""

_FAULTY = """
import power.cli.verbs.run as run
def read_prompt(options):
    return 1 // 0
run.read_prompt = read_prompt
from power.cli.app import run as main
main()
"""


def test_a_fault_of_our_own_is_no_verdict_and_no_traceback(ready: Bench) -> None:
    for development in (False, True):
        mode = ["-X", "dev"] if development else []
        done = subprocess.run(
            [sys.executable, *mode, "-c", _FAULTY, "run", "plan.lock"],
            cwd=ready.folder,
            env=ready.environment(),
            capture_output=True,
            check=False,
        )
        assert (b"Traceback" in done.stderr) is development
        if not development:
            assert done.returncode == 2
            assert done.stderr.startswith(b"error[P710]")
            assert b"ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("verify LONG --key key.pem.pub", "P706"),
        ("key show LONG", "P706"),
        ("run plan.lock --prompt one --receipt LONG", "P441"),
        ("certify plan.lock -o LONG", "P441"),
        ("run plan.lock --prompt one --artifacts nowhere", "P701"),
        ("compile manifest.toml --artifacts ''", "P701"),
        ("evidence pack ''", "P701"),
        ("evidence verify '' --key key.pem.pub", "P701"),
        ("inspect loop.gguf", "P224"),
        ("run plan.lock --prompt one --stop $'\\xff'", "P705"),
        ("run plan.lock --prompt one --chat --system $'\\xff'", "P705"),
        ("verify r.json --key key.pem.pub --plan plan.lock --replay --stop $'\\xff'", "P705"),
        ("bench" + " plan.lock" * 17 + " --prompts few.jsonl -o b.json", "P704"),
        ("key new --passphrase --passphrase-file f k.pem", "P704"),
        ("run plan.lock --prompts seed.jsonl --out o.jsonl", "P570"),
    ],
)
def test_it_is_refused_before_anything_ran(ready: Bench, command: str, code: str) -> None:
    (ready.folder / "loop.gguf").symlink_to("loop.gguf")
    ready.write("seed.jsonl", f'{{"prompt": "x", "seed": {10**20}}}\n')
    ready.write("few.jsonl", '{"prompt": "x"}\n')
    done = shell(ready, f"POWER {command}".replace("LONG", "x" * 300))
    assert done.returncode == 2, done.stderr
    assert f"error[{code}]".encode() in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""
    assert not ready.receipts


def test_a_passphrase_that_no_file_of_a_key_takes(bench: Bench) -> None:
    done = bench("key", "new", "k.pem", env={"POWER_KEY_PASSPHRASE": "x" * 1024})
    assert done.code == 2
    assert "error[P604]" in done.stderr
    assert "1024 bytes" in done.stderr


def test_a_limit_on_files_is_not_taken_for_a_want_of_memory(ready: Bench) -> None:
    done = shell(ready, "ulimit -f 2; POWER run plan.lock --prompt one 2>&1 | cat")
    assert b"error[P234]" in done.stdout
    assert b"ulimit -f" in done.stdout


def test_a_passphrase_is_asked_for_where_a_key_can_be_made(ready: Bench) -> None:
    for path, code in (("key.pem", "P440"), ("new.pem", "P604")):
        done = shell(ready, f"setsid POWER key new --passphrase {path}")
        assert done.returncode == 2
        assert f"error[{code}]".encode() in done.stderr
    assert b"is encrypted" not in done.stderr
    assert not (ready.folder / "new.pem").exists()


def test_a_limit_of_the_process_is_no_fault_of_ours(ready: Bench) -> None:
    done = shell(ready, "ulimit -n 6; POWER doctor")
    assert done.returncode == 2, done.stderr
    assert b"error[P706]: the operating system refused: Too many open files" in done.stderr


def test_a_key_that_the_environment_names_is_named(ready: Bench) -> None:
    done = ready("run", "plan.lock", "--prompt", "one", env={"POWER_KEY": "nope"})
    assert done.code == 2
    assert "--> POWER_KEY: nope" in done.stderr


def test_a_formatted_text_is_in_the_object_that_tells_of_it(ready: Bench) -> None:
    text = (ready.folder / "manifest.toml").read_bytes().replace(b" = ", b"=")
    plain = ready("fmt", "-", stdin=text)
    told = ready("fmt", "-", "--format", "json", stdin=text)
    assert told.json["text"].encode() == plain.stdout
    assert b"schema = 1" in plain.stdout
