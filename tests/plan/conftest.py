"""Facts to make plans of: a small target, a draft for it, an engine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from power.artifact.facts import HeaderFacts, PairFacts
from power.manifest.model import Draft, Settings, Target
from power.plan.compiler import DraftFacts, Inputs
from power.plan.model import Source

T, D, V, M = ("0123456789abcdef"[i] * 64 for i in (10, 13, 5, 3))
ALL = ("prompt-lookup", "ngram-context", "draft-model", "mtp", "dflash", "dflash2", "dspark")


@dataclass(frozen=True)
class Engine:
    """Engine facts that a test can choose."""

    package: str = "llama-cpp-python"
    version: str = "0.3.36"
    llama_cpp: str = "0.5.0-dev"
    capabilities: Mapping[str, str | None] = field(
        default_factory=lambda: dict.fromkeys(("off", *ALL)) | {"eagle3": "not built in"}
    )


HEADER = HeaderFacts(
    architecture="llama",
    file_type="MOSTLY_Q4_1",
    layers=30,
    width=576,
    vocabulary=49152,
    context=8192,
    tokenizer_model="gpt2",
    pre_tokenizer="smollm",
    vocabulary_sha256=V,
    chat_template_sha256=None,
    recurrent=False,
)

MakeInputs = Callable[..., Inputs]


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def header() -> HeaderFacts:
    return HEADER


@pytest.fixture
def make_inputs() -> MakeInputs:
    """Inputs from sections; `kind` declares a draft, the rest overrides facts."""

    def make(
        *,
        kind: str | None = None,
        max_width: int | None = None,
        fr_vocabulary: int | None = None,
        draft_context: int = 8192,
        engine: Engine | None = None,
        header: Mapping[str, Any] | None = None,
        profile: Source | None = None,
        **sections: Mapping[str, Any],
    ) -> Inputs:
        draft = None
        if kind is not None:
            pinned = Draft.model_validate(
                {"kind": kind, "path": "d.gguf", "bytes": 7, "sha256": D, "target_sha256": T}
            )
            pair = PairFacts(kind, max_width, fr_vocabulary)
            draft = DraftFacts(pinned, replace(HEADER, context=draft_context), pair)
        return Inputs(
            name="small",
            manifest=Source(name="small", sha256=M),
            profile=profile,
            settings=Settings.model_validate(sections),
            target=Target(path="t.gguf", bytes=9, sha256=T),
            target_header=replace(HEADER, **(header or {})),
            draft=draft,
            engine=engine or Engine(),
        )

    return make
