"""From a run by a real worker to a receipt and back: sign, verify, replay, compare the claim."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.plan.model import Plan
from power.receipt import bundle
from power.receipt.replay import Replayed, find_request, recover_request, replay
from power.receipt.statement import build_statement
from power.receipt.trust import trust_in
from power.receipt.verify import Verified, verify_receipt
from power.runner.literal import Rendered
from power.runner.prompts import Prompt, read_prompts
from power.runner.runner import Runner
from power.runner.types import Request, RunRecord
from tests.receipt import samples
from tests.receipt.scripted import Artifacts, open_runner, scripted_plan

KEY = samples.KEYS["ed25519"]
PROMPT = "one two three one two three one two"
STRATEGIES = ["off", "prompt-lookup", "ngram-context", "draft-model"]


def recovered(verified: Verified, prompt: str, stop: tuple[str, ...] = ()) -> Request:
    return recover_request(verified.statement.predicate.request, Rendered(prompt), stop)


def signed(plan: Plan, request: Request, record: RunRecord) -> Verified:
    """The receipt of a run, verified with everything that its maker has."""
    data = samples.plan_bytes(plan)
    receipt = bundle.sign(build_statement(plan, data, request, record), KEY)
    return verify_receipt(receipt, trust_in(KEY.public_key()), plan=data, output=record.text)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_runs_and_the_control_run_make_one_claim(strategy: str) -> None:
    plan = scripted_plan(strategy)
    request = Request(PROMPT)
    control = replace(request, control=True)
    with open_runner(plan) as runner:
        verified = signed(plan, request, runner.generate(request))
        controlled = signed(plan, control, runner.generate(control))
        again = replay(verified, runner, recovered(verified, PROMPT))
    claim = verified.statement.predicate.claim_sha256
    assert again.claim_sha256 == claim == controlled.statement.predicate.claim_sha256
    assert again.notes == ()
    assert (verified.statement.predicate.execution.drafted > 0) == (strategy != "off")
    assert controlled.statement.predicate.execution.drafted == 0


@pytest.mark.parametrize(
    "request_",
    [
        Request(PROMPT, max_tokens=1),
        Request(PROMPT, max_tokens=5, seed=11),
        Request(PROMPT, stop=("e",)),
        Request(PROMPT, stop=("\n", "one")),
        Request("½ of €5", special=True),
    ],
    ids=lambda request: f"{request.max_tokens},{request.seed},{request.stop!r}",
)
@pytest.mark.parametrize("strategy", ["prompt-lookup", "draft-model"])
def test_every_way_to_end_is_signed_and_replayed(strategy: str, request_: Request) -> None:
    plan = scripted_plan(strategy, temperature=0.8, top_k=20)
    with open_runner(plan) as runner:
        verified = signed(plan, request_, runner.generate(request_))
        again = replay(verified, runner, recovered(verified, request_.text, request_.stop))
    assert again.claim_sha256 == verified.statement.predicate.claim_sha256
    assert again.record.text == again.record.text.decode().encode()


@pytest.fixture(scope="module")
def run() -> tuple[Plan, Request, RunRecord]:
    plan = scripted_plan("prompt-lookup")
    request = Request(PROMPT, stop=("\n\n",))
    with open_runner(plan) as runner:
        return plan, request, runner.generate(request)


Run = tuple[Plan, Request, RunRecord]


class Recorded(Runner):
    """A runner whose worker always answers with one record: what a replay makes of it."""

    def __init__(self, plan: Plan, record: RunRecord) -> None:
        super().__init__(plan, Artifacts((), ()), backend="scripted")
        self.record = record
        self.requests: list[Request] = []

    def generate(self, request: Request, *_heard: Any, **_more: Any) -> RunRecord:
        self.requests.append(request)
        return self.record


def ask_again(
    verified: Verified, runner: Runner, prompt: str = PROMPT, stop: tuple[str, ...] = ("\n\n",)
) -> Replayed:
    return replay(verified, runner, recovered(verified, prompt, stop))


def refused(run: Run, runner: Runner, prompt: str = PROMPT, **more: Any) -> PowerError:
    with pytest.raises(PowerError) as error:
        ask_again(signed(*run), runner, prompt, **more)
    return error.value


def test_the_signed_request_is_asked_again(run: Run) -> None:
    plan, request, record = run
    runner = Recorded(plan, record)
    ask_again(signed(*run), runner)
    assert runner.requests == [replace(request, max_tokens=48, seed=3)]


@pytest.mark.parametrize(
    ("prompt", "more"),
    [(PROMPT + "\n", {}), ("", {}), (PROMPT, {"stop": ()}), (PROMPT, {"stop": ("\n",)})],
)
def test_another_request_is_not_run(run: Run, prompt: str, more: dict[str, Any]) -> None:
    runner = Recorded(run[0], run[2])
    error = refused(run, runner, prompt, **more)
    assert [d.code for d in error.diagnostics] == ["P640"]
    assert error.exit_code is ExitCode.CANNOT_JUDGE
    assert runner.requests == []


def test_another_plan_is_not_run(run: Run) -> None:
    runner = Recorded(scripted_plan("off"), run[2])
    assert [d.code for d in refused(run, runner).diagnostics] == ["P630"]
    assert runner.requests == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ids": (1, 2)}, ": the output's tokens came"),
        ({"text": b"x"}, ": the output's text came"),
        ({"prompt_ids": (1,)}, ": the prompt's tokens came"),
        ({"ids": (1,), "text": b"x"}, ": the output's tokens, the output's text came"),
        ({"seed": 4}, ": the sampling came"),
    ],
)
def test_a_claim_that_does_not_repeat(run: Run, change: dict[str, Any], says: str) -> None:
    error = refused(run, Recorded(run[0], replace(run[2], **change)))
    (found,) = error.diagnostics
    assert (found.code, error.exit_code) == ("P641", ExitCode.NO)
    assert says in found.message


def test_what_differs_between_the_machines_is_told(run: Run) -> None:
    plan, _, record = run
    other = replace(
        record,
        host=replace(record.host, cpu="Another", threads=9),
        engine=replace(record.engine, libraries={"libllama.so": "0" * 64}, devices=["GPU"]),
    )
    again = ask_again(signed(*run), Recorded(plan, other))
    assert len(again.notes) == 4
    error = refused(run, Recorded(plan, replace(other, text=b"x")))
    assert error.diagnostics[0].hint == "; ".join(again.notes)


def test_a_cancelled_replay_is_an_interruption(run: Run) -> None:
    with pytest.raises(KeyboardInterrupt):
        ask_again(signed(*run), Recorded(run[0], replace(run[2], finish="cancelled")))


# --- a line of a batch ----------------------------------------------------------------------

LINES = (
    '{"prompt": "one"}',
    f'{{"prompt": "{PROMPT}"}}',
    f'{{"prompt": "{PROMPT}", "stop": ["\\n\\n"], "seed": 9}}',
    f'{{"prompt": "{PROMPT}", "stop": ["\\n\\n"], "max_tokens": 3}}',
    f'{{"prompt": "{PROMPT}", "stop": ["\\n\\n"], "max_tokens": 48}}',
    f'{{"messages": [{{"role": "user", "content": "{PROMPT}"}}], "stop": ["\\n\\n"]}}',
)


def chat(messages: Any) -> Rendered:
    return Rendered(f"<|im_start|>{messages[0]['content']}", ((0, 1),))


@pytest.fixture
def lines(run: Run, tmp_path: Path) -> tuple[Prompt, ...]:
    (tmp_path / "p.jsonl").write_text("\n".join(LINES), "utf-8")
    return read_prompts(tmp_path / "p.jsonl", run[0].sampling, chat=True)


def test_the_line_of_a_batch_is_found_by_its_digests(run: Run, lines: tuple[Prompt, ...]) -> None:
    """Neither another stop sequence, seed nor limit will do, nor a chat for a plain prompt."""
    plan, request, _ = run
    asked = signed(*run).statement.predicate.request
    assert find_request(asked, lines, chat) == replace(request, max_tokens=48, seed=3)
    for wrong in (lines[:2], lines[2:4], lines[5:]):
        with pytest.raises(PowerError) as error:
            find_request(asked, wrong, chat)
        assert [d.code for d in error.value.diagnostics] == ["P640"]
    assert plan.sampling.max_tokens == 48


def test_a_chat_of_a_batch_is_found_with_what_stays_plain_in_it(
    run: Run, lines: tuple[Prompt, ...]
) -> None:
    plan, request, record = run
    said = chat([{"content": PROMPT}])
    asked = replace(request, text=said.text, special=True, plain=said.plain)
    part = signed(plan, asked, record).statement.predicate.request
    assert find_request(part, lines, chat) == replace(asked, max_tokens=48, seed=3)
