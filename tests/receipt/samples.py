"""A plan, a run of it and keys that never change: what tests and vectors are made from."""

import hashlib
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from power.plan import lock
from power.plan.model import PLAN_REVISION, PLAN_VERSION, Plan
from power.receipt.keys import PrivateKey
from power.receipt.statement import build_statement
from power.runner.types import EngineRecord, HostRecord, Request, RunRecord

PROMPT = "Write one sentence about a lighthouse.\n"
OUTPUT = "The lighthouse blinks: ½ turn a minute.".encode()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def ed25519_key(seed: str = "power test key") -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(digest(seed)))


def p256_key(seed: str = "power test key") -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int(digest(seed), 16) >> 1, ec.SECP256R1())


KEYS: dict[str, PrivateKey] = {"ed25519": ed25519_key(), "p256": p256_key()}


def header(name: str) -> dict[str, Any]:
    return {
        "architecture": "qwen2",
        "file_type": "Q4_K_M",
        "layers": 28,
        "width": 1536,
        "vocabulary": 151936,
        "context": 32768,
        "tokenizer_model": "gpt2",
        "pre_tokenizer": "qwen2",
        "vocabulary_sha256": digest("vocabulary"),
        "chat_template_sha256": digest(name),
    }


def plan_body() -> dict[str, Any]:
    """A plan with an external draft, a split target and every optional part."""
    shards = [
        {"path": f"target-0000{i}-of-00002.gguf", "bytes": 1000 + i, "sha256": digest(f"shard {i}")}
        for i in (1, 2)
    ]
    return {
        "version": PLAN_VERSION,
        "revision": PLAN_REVISION,
        "name": "sample",
        "manifest": {"name": "sample", "sha256": digest("manifest")},
        "profile": {"name": "balanced", "sha256": digest("profile")},
        "target": shards[0]
        | {
            "source": "https://models.example/target",
            "revision": "1f" * 20,
            "license": "Apache-2.0",
            "shards": shards,
            "header": header("target"),
        },
        "draft": {
            "kind": "eagle3",
            "path": "draft.gguf",
            "bytes": 77,
            "sha256": digest("draft"),
            "target_sha256": shards[0]["sha256"],
            "header": header("draft"),
            "contract": {"max_width": 64, "fr_vocabulary": 8192, "notes": []},
        },
        "speculation": {
            "requested": "auto",
            "strategy": "eagle3",
            "reason": "the manifest declares a draft",
            "spec_draft_max": 4,
            "spec_draft_min": 1,
            "spec_draft_p_min": 0.05,
            "spec_mtp_recurrent_snapshots": 3,
            "effective_snapshots": 3,
            "rollback": "trim",
            "spec_mtp_fr_vocab_size": 8192,
            "fr_rule": "d2t",
            "fr_sha256": digest("fr"),
            "spec_mtp_adaptive": True,
        },
        "graph": {
            "batch": 6,
            "shape": "fixed",
            "rows": 5,
            "context": 4096,
            "prefill_batch": 512,
            "flash_attention": "on",
            "cuda_graphs": True,
            "backend_sampling": True,
            "gpu_layers": "all",
            "main_gpu": 0,
        },
        "host": {"process_priority": "normal", "cuda_high_priority": False, "require": []},
        "sampling": {
            "temperature": 0.7,
            "top_k": 40,
            "top_p": 0.95,
            "min_p": 0.05,
            "typical_p": 1.0,
            "repeat_penalty": 1.1,
            "repeat_last_n": 64,
            "grammar": 'root ::= "The" .*',
            "seed": 42,
            "max_tokens": 64,
        },
        "exactness": {"level": "shape"},
        "bounds": {"min_acceptance": 0.5},
        "engine": {
            "package": "llama-cpp-python",
            "version": "0.3.36",
            "llama_cpp": "b7777",
            "capabilities": ["eagle3"],
        },
    }


def sample_plan(**changes: Any) -> Plan:
    """The plan of `plan_body`, with whole tables replaced, or removed by None."""
    body = {k: v for k, v in (plan_body() | changes).items() if v is not None}
    return lock.seal(body)


def off_plan() -> Plan:
    """The smallest plan: one file, no speculation, no bound, greedy."""
    body = plan_body()
    target = {k: v for k, v in body["target"].items() if k in {"path", "bytes", "sha256", "header"}}
    return sample_plan(
        profile=None,
        target=target,
        draft=None,
        speculation={"requested": "off", "strategy": "off", "reason": "asked for"},
        graph={k: v for k, v in body["graph"].items() if k not in {"batch", "rows"}}
        | {"shape": "natural"},
        sampling={"temperature": 0.0, "seed": 42, "max_tokens": 64},
        bounds=None,
        engine=body["engine"] | {"capabilities": []},
    )


def plan_bytes(plan: Plan) -> bytes:
    return lock.dumps(plan).encode()


REQUEST = Request(PROMPT, special=True, max_tokens=32, seed=7, stop=("\n\n",))

RECORD = RunRecord(
    prompt_ids=(1, 2, 3, 151_935),
    ids=tuple(range(100, 115)),
    text=OUTPUT,
    finish="end",
    control=False,
    strategy="eagle3",
    seed=7,
    max_tokens=32,
    counters={
        "rounds": 6,
        "target_only_rounds": 1,
        "drafted": 16,
        "accepted": 9,
        "drafted_by_position": [5, 5, 3, 3],
        "accepted_by_position": [4, 3, 1, 1],
        "replays": 1,
        "guard_round": 3,
        "clamped_width": 3,
        "widened_round": 2,
        "circuit_round": 6,
        "widths": [(3, 1), (4, 2), (3, 3)],
    },
    phases_us={"tokenise": 100, "prefill": 4_000, "draft": 700, "verify": 5_000, "other": 200},
    wall_us=10_000,
    first_token_us=4_900,
    first_tokens=2,
    started="2026-08-23T10:11:12Z",
    finished="2026-08-23T10:11:13Z",
    peak_rss_bytes=300_000_000,
    engine=EngineRecord(
        package="llama-cpp-python",
        version="0.3.36",
        llama_cpp="b7777",
        libraries={"libllama.so": digest("llama"), "libggml.so": digest("ggml")},
        devices=["CPU"],
    ),
    host=HostRecord(
        os="Linux 6.1.0",
        machine="x86_64",
        cpu="A CPU",
        physical_cores=2,
        threads=2,
        memory_bytes=8 << 30,
    ),
    notes=["one note"],
    fr_covered=15,
)

_NOTHING = {
    "rounds": 15,
    "target_only_rounds": 15,
    "drafted": 0,
    "accepted": 0,
    "drafted_by_position": [0, 0, 0, 0],
    "accepted_by_position": [0, 0, 0, 0],
    "replays": 0,
    "guard_round": None,
    "clamped_width": None,
    "widened_round": None,
    "circuit_round": None,
    "widths": [(0, 15)],
}


def control_record() -> RunRecord:
    """The control run of the same request: the same tokens, one a round."""
    return replace(
        RECORD, control=True, strategy="off", counters=_NOTHING, first_tokens=1, fr_covered=None
    )


def sample_statement() -> dict[str, Any]:
    """A statement with every optional field present."""
    plan = sample_plan()
    return build_statement(plan, plan_bytes(plan), REQUEST, RECORD, certificate=b"certificate")


def control_statement() -> dict[str, Any]:
    plan = sample_plan()
    request = replace(REQUEST, control=True)
    return build_statement(plan, plan_bytes(plan), request, control_record())


def off_statement() -> dict[str, Any]:
    plan = off_plan()
    record = replace(
        control_record(),
        control=False,
        seed=42,
        max_tokens=64,
        first_token_us=None,
        first_tokens=0,
        notes=[],
    )
    return build_statement(plan, plan_bytes(plan), Request(PROMPT), record)


def digests_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
