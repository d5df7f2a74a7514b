"""From a plan to settings, from a host to a record: pure functions."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from power.backends.interface import EngineIdentity
from power.diagnostics import ExitCode, PowerError
from power.plan.model import Cost, Plan
from power.runner import host as host_module
from power.runner.confine import apply_host, peak_rss
from power.runner.host import check_required, host_record, niceness, resolve_threads
from power.runner.limits import CALL_LIMIT_S, call_limit
from power.runner.messages import Run
from power.runner.record import check_engine, check_strategy, contradiction, phases_us
from power.runner.request import check_request
from power.runner.settings import engine_config, sampling_config, scheduler_settings
from power.runner.spawn import child_environment, python_module
from power.runner.types import Request
from power.speculation.outcome import NEVER, Costs, Counters, Finish, Phase
from tests.runner.conftest import MakePlan
from tests.runner.test_protocol import DONE, TO_WORKER


def speculating(plan: Plan, **changes: Any) -> Plan:
    """`plan` with other speculation settings."""
    return plan.model_copy(update={"speculation": plan.speculation.model_copy(update=changes)})


class TestEngine:
    def test_a_plan_that_is_off_asks_for_no_width(self, make_plan: MakePlan) -> None:
        config = engine_config(make_plan(), (3,), (), threads=2)
        assert (config.strategy, config.draft_max, config.snapshots, config.batch) == (
            "off",
            0,
            0,
            1,
        )
        assert (config.target, config.draft, config.threads, config.rows) == ((3,), (), 2, None)
        settings = scheduler_settings(make_plan())
        assert (settings.draft_max, settings.window, settings.snapshots) == (0, 0, 0)

    @pytest.mark.parametrize(("repack", "told"), [(None, None), ("on", True), ("off", False)])
    def test_kernel_settings_reach_the_engine(
        self, make_plan: MakePlan, repack: str | None, told: bool | None
    ) -> None:
        plan = make_plan()
        graph = plan.graph.model_copy(update={"repack": repack, "micro_batch": 7})
        config = engine_config(plan.model_copy(update={"graph": graph}), (3,), (), threads=2)
        assert (config.repack, config.micro_batch) == (told, 7)

    def test_a_pure_cache_trims_any_suffix(self, make_plan: MakePlan) -> None:
        plan = speculating(
            make_plan("prompt-lookup"), spec_draft_max=7, effective_snapshots=5, rollback="trim"
        )
        settings = scheduler_settings(plan)
        assert (settings.draft_max, settings.window, settings.snapshots) == (7, 7, 5)

    def test_recurrent_planes_bound_the_window(self, make_plan: MakePlan) -> None:
        plan = speculating(
            make_plan("prompt-lookup"),
            spec_draft_max=7,
            spec_draft_min=2,
            effective_snapshots=5,
            rollback="snapshots",
            spec_mtp_adaptive=True,
        )
        settings = scheduler_settings(plan)
        assert (settings.window, settings.snapshots, settings.draft_min) == (5, 5, 2)
        assert settings.controller == "adaptive"
        assert engine_config(plan, (3,), (4,), threads=1).snapshots == 5

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [(None, (1_000_000, 1_840_000, NEVER, 2_850_000)), (4, (2_850_000,) * 4)],
    )
    def test_costs_are_millionths_by_proposed_tokens(
        self, make_plan: MakePlan, rows: int | None, expected: tuple[int, ...]
    ) -> None:
        """A row count that the plan does not list is not to be used."""
        cost = Cost(
            draft_call="0.5",
            draft_step="0.25",
            rebuild="0.08",
            refill="0.02",
            rows={"1": "1", "2": "1.84", "4": "2.85"},
        )
        plan = speculating(make_plan("prompt-lookup"), controller="cost", cost=cost)
        plan = plan.model_copy(update={"graph": plan.graph.model_copy(update={"rows": rows})})
        settings = scheduler_settings(plan)
        assert settings.controller == "cost"
        # Passes of a fixed shape are all of one row count.
        rebuild, refill = (80_000, 20_000) if rows is None else (0, 0)
        assert settings.costs == Costs(expected, 500_000, 250_000, rebuild, refill)

    def test_a_plan_without_snapshots_has_the_width_itself(self, make_plan: MakePlan) -> None:
        plan = speculating(make_plan("prompt-lookup"), effective_snapshots=None)
        assert scheduler_settings(plan).snapshots == 3

    def test_a_high_priority_stream_and_options_of_a_backend_reach_the_engine(
        self, make_plan: MakePlan
    ) -> None:
        plan = make_plan()
        host = plan.host.model_copy(update={"cuda_high_priority": True})
        plan = plan.model_copy(update={"host": host})
        config = engine_config(plan, (3,), (), 1, {"x": 1})
        assert config.cuda_high_priority
        assert config.extra == {"x": 1}

    def test_a_request_may_bring_its_own_seed(self, make_plan: MakePlan) -> None:
        plan = make_plan(temperature=0.5)
        sampling = sampling_config(plan, 99)
        assert (sampling.seed, sampling.temperature, sampling.top_k) == (99, 0.5, None)


class TestHost:
    def test_threads_are_the_plans_or_the_physical_cores(
        self, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 16 if logical else 8)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
        monkeypatch.setattr(host_module, "_quota", lambda: None)
        assert resolve_threads(make_plan(threads=3).host) == 3
        assert resolve_threads(make_plan(threads=None).host) == 8
        assert resolve_threads(make_plan(threads=None, cpu_affinity=[0, 2]).host) == 2
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 4, 5}, raising=False)
        assert resolve_threads(make_plan(threads=None).host) == 3
        monkeypatch.setattr(host_module, "_quota", lambda: 2)
        assert resolve_threads(make_plan(threads=None).host) == 2
        monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: None)
        assert resolve_threads(make_plan(threads=None).host) == 1

    @pytest.mark.parametrize(
        ("text", "cpus"),
        [
            ("max 100000\n", None),
            ("200000 100000\n", 2),
            ("150000 100000\n", 2),
            ("1000 100000\n", 1),
            ("", None),
            ("1 0\n", None),
            ("a b c\n", None),
        ],
    )
    def test_the_quota_of_a_container(self, tmp_path: Path, text: str, cpus: int | None) -> None:
        path = tmp_path / "cpu.max"
        assert host_module._quota(path) is None
        path.write_text(text)
        assert host_module._quota(path) == cpus

    def test_a_record_names_neither_host_nor_user(self) -> None:
        record = host_record(3)
        told = " ".join(map(str, (record.os, record.machine, record.cpu)))
        assert os.uname().nodename not in told.split()
        assert record.os.startswith(os.uname().sysname)
        assert (record.threads, record.machine) == (3, os.uname().machine)
        assert record.memory_bytes == psutil.virtual_memory().total

    def test_the_cpus_name(self, tmp_path: Path) -> None:
        path = tmp_path / "cpuinfo"
        path.write_text("processor\t: 0\nmodel name\t: EPYC: the CPU\nmodel name\t: other\n")
        assert host_module._cpu_model(path) == "EPYC: the CPU"
        assert host_module._cpu_model(tmp_path / "none")

    @pytest.mark.parametrize(
        ("required", "devices", "missing"),
        [
            ([], [], None),
            (["cuda"], ["CPU (x)", "CUDA0 (H200)"], None),
            (["cuda", "cpu"], ["CPU (CUDA in its name)"], "`cuda`"),
            (["vulkan"], [], "`vulkan`"),
            (["c", "cud", "cuda1"], ["CPU (x)", "CUDA0 (H200)"], "`c`, `cud`, `cuda1`"),
            (["cpu", "cuda0"], ["CPU (x)", "CUDA0 (H200)"], None),
        ],
    )
    def test_required_devices(
        self, required: list[str], devices: list[str], missing: str | None
    ) -> None:
        if missing is None:
            check_required(required, devices)
            return
        with pytest.raises(PowerError, match=missing) as caught:
            check_required(required, devices)
        assert caught.value.exit_code is ExitCode.BROKEN_TRUST

    def test_priorities_are_ordered(self) -> None:
        assert niceness("low") > niceness("normal") == 0 > niceness("high")

    def test_a_priority_that_is_not_granted_is_a_note(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_increment: int) -> int:
            raise PermissionError

        monkeypatch.setattr(os, "nice", refuse)
        assert apply_host(None, -5) == ("the host did not grant the priority (niceness -5)",)
        assert apply_host(None, 0) == ()

    def test_peak_memory_is_this_processs_own(self) -> None:
        assert peak_rss() >= psutil.Process().memory_info().rss // 2


class TestSpawn:
    def test_a_child_gets_no_secret(self) -> None:
        given = {
            "PATH": "p",
            "LC_ALL": "C",
            "CUDA_VISIBLE_DEVICES": "0",
            "POWER_KEY_PASSPHRASE": "secret",
            "POWER_KEY": "secret",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "GGML_ANYTHING": "1",
            "PYTHONSTARTUP": "x",
            "LD_PRELOAD": "x",
            # names that only begin as one that a child gets
            "CUDA_INJECTION64_PATH": "secret",
            "COVERAGE_TOKEN": "secret",
            "LC_SECRET": "secret",
            "NVIDIA_API_KEY": "secret",
        }
        found = child_environment(given, ["", "relative", "/lib/a", "/lib/b"])
        assert found.pop("PYTHONPATH") == os.pathsep.join(["/lib/a", "/lib/b"])
        assert "secret" not in found.values()
        assert set(found) == {
            "PATH",
            "LC_ALL",
            "CUDA_VISIBLE_DEVICES",
            "PYTHONUTF8",
            "GGML_NO_BACKTRACE",
        }

    def test_a_child_imports_nothing_from_the_working_folder(self) -> None:
        assert python_module("a.b") == (sys.executable, "-P", "-s", "-m", "a.b")


class TestLimits:
    @pytest.mark.parametrize(
        ("environment", "limit"),
        [
            ({}, CALL_LIMIT_S),
            ({"POWER_WORKER_TIMEOUT": "0.5"}, 0.5),
            ({"POWER_WORKER_TIMEOUT": "600"}, 600.0),
        ],
    )
    def test_the_limit(self, environment: dict[str, str], limit: float) -> None:
        assert call_limit(environment) == limit

    @pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "ten", "1s"])
    def test_no_number_is_refused(self, text: str) -> None:
        with pytest.raises(PowerError) as caught:
            call_limit({"POWER_WORKER_TIMEOUT": text})
        assert caught.value.diagnostics[0].code == "P516"
        assert caught.value.exit_code is ExitCode.CANNOT_JUDGE


class TestRequest:
    @pytest.mark.parametrize(
        ("request_", "code"),
        [
            (Request(""), "P513"),
            (Request("a\ud800"), "P515"),
            (Request("a", max_tokens=0), "P512"),
            (Request("a", max_tokens=33), "P512"),
            (Request("a", seed=-1), "P515"),
            (Request("a", seed=2**32 - 1), "P515"),
            (Request("a", stop=("",)), "P515"),
            (Request("a", stop=("x" * 1025,)), "P515"),
            (Request("a", stop=("\udcff",)), "P515"),
            (Request("a", stop=("x",) * 17), "P515"),
        ],
    )
    def test_what_cannot_run_is_refused(
        self, make_plan: MakePlan, request_: Request, code: str
    ) -> None:
        with pytest.raises(PowerError) as caught:
            check_request(request_, make_plan().sampling)
        assert [d.code for d in caught.value.diagnostics] == [code]
        assert caught.value.exit_code is ExitCode.CANNOT_JUDGE

    def test_the_bounds_themselves_are_legal(self, make_plan: MakePlan) -> None:
        stop = ("é" * 512,) * 16
        check_request(Request("a", max_tokens=32, seed=2**32 - 2, stop=stop), make_plan().sampling)
        check_request(Request("\0", max_tokens=1, seed=0), make_plan().sampling)


class TestRecord:
    def test_phases_add_up_and_rounding_goes_to_other(self) -> None:
        spent = {Phase.VERIFY: 1999, Phase.DRAFT: 999, Phase.OTHER: 1}
        found = phases_us(spent, 3999)
        assert (found["verify"], found["draft"], found["other"]) == (1, 0, 2)
        assert sum(found.values()) == 3
        assert set(found) == {phase.value for phase in Phase}

    @pytest.mark.parametrize(
        ("changes", "emitted", "reason"),
        [
            ({}, b"\xff\0a", None),
            ({}, b"\xff\0", "the text of `done`"),
            ({"finish": Finish.CANCELLED}, b"\xff", None),
            ({"finish": Finish.CANCELLED}, b"b", "the text of `done`"),
            ({"number": 2}, b"\xff\0a", "`done` of request 2"),
            ({"ids": (1,) * 10}, b"\xff\0a", "10 tokens where 9"),
            ({"ids": (1, -1)}, b"\xff\0a", "outside the vocabulary"),
            ({"prompt_ids": (256,)}, b"\xff\0a", "outside the vocabulary"),
            ({"wall_ns": 4}, b"\xff\0a", "longer than the whole"),
            ({"first_tokens": 1}, b"\xff\0a", "without their time"),
            ({"first_token_ns": 3, "first_tokens": 99}, b"\xff\0a", "more first tokens"),
        ],
    )
    def test_a_record_that_contradicts_what_was_seen(
        self, changes: dict[str, Any], emitted: bytes, reason: str | None
    ) -> None:
        run = next(m for m in TO_WORKER if isinstance(m, Run))
        counters = Counters(phases_ns={Phase.VERIFY: 5})
        done = replace(DONE, counters=counters, **changes)
        found = contradiction(replace(run, number=3), done, emitted, 256)
        assert found is None if reason is None else reason in str(found)

    @pytest.mark.parametrize(
        ("planned", "width", "agrees"),
        [("off", 0, True), ("mtp", 3, True), ("off", 3, False), ("mtp", 0, False)],
    )
    def test_the_strategy_has_to_have_run(self, planned: str, width: int, agrees: bool) -> None:
        if agrees:
            check_strategy(planned, width)
            return
        with pytest.raises(PowerError) as caught:
            check_strategy(planned, width)
        assert caught.value.exit_code is ExitCode.ENGINE_FAILED

    def test_the_engine_has_to_be_the_plans(self, make_plan: MakePlan) -> None:
        pin = make_plan().engine
        check_engine(pin, EngineIdentity("power-rogue", "1.0", "none", {}, [], ""))
        with pytest.raises(PowerError) as caught:
            check_engine(pin, EngineIdentity("power-rogue", "1.0", "0.6", {}, [], ""))
        (diagnostic,) = caught.value.diagnostics
        assert (diagnostic.expected, diagnostic.found) == ("none", "0.6")
