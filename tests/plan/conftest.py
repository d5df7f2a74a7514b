"""Facts to make plans of: a small target, a draft for it, an engine."""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from power.artifact.facts import HeaderFacts, PairFacts
from power.manifest.model import Draft, Settings, Target
from power.plan.compile import compile_manifest
from power.plan.compiled import Compiled
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
    grammar_fault: Callable[[str], str | None] = lambda text: None if "::=" in text else "no rule"


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
        notes: tuple[str, ...] = (),
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
            pair = PairFacts(kind, max_width, fr_vocabulary, notes)
            model = None if kind == "mtp" else replace(HEADER, context=draft_context)
            draft = DraftFacts(pinned, model, pair, None if fr_vocabulary is None else D)
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


CORPUS = Path(__file__).parents[1] / "vectors" / "corpus"


@dataclass(frozen=True)
class Workspace:
    """A folder with tiny GGUFs and a manifest that pins them."""

    folder: Path
    engine: Engine = field(default_factory=Engine)

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.toml"

    @property
    def lock(self) -> Path:
        return self.folder / "plan.lock"

    def add(self, source: str, name: str | None = None) -> Path:
        """A copy of a file of the corpus."""
        path = self.folder / (name or Path(source).name)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(CORPUS / source, path)
        return path

    def pin(self, path: str) -> str:
        data = (self.folder / path).read_bytes()
        return (
            f'path = "{path}"\nbytes = {len(data)}\nsha256 = "{hashlib.sha256(data).hexdigest()}"\n'
        )

    def write(self, target: str = "t.gguf", draft: str | None = None, settings: str = "") -> None:
        """The manifest: `settings` is TOML behind the artifacts, `draft` a draft-model."""
        text = f'schema = 1\nname = "tiny"\n\n[target]\n{self.pin(target)}'
        if draft is not None:
            whose = hashlib.sha256((self.folder / target).read_bytes()).hexdigest()
            text += f'\n[draft]\nkind = "draft-model"\n{self.pin(draft)}target_sha256 = "{whose}"\n'
        self.manifest.write_text(f"{text}\n[graph]\ncontext = 64\n{settings}", "utf-8")

    def compile(self, **options: Any) -> Compiled:
        roots = options.pop("roots", ())
        profile = options.pop("profile", None)
        return compile_manifest(
            self.manifest, profile=profile, roots=roots, engine=self.engine, **options
        )


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A target `t.gguf`, a draft `d.gguf` that may advise it, and a manifest for both."""
    made = Workspace(tmp_path)
    made.add("gguf/good-v3-target.gguf", "t.gguf")
    made.add("gguf/good-v3-draft.gguf", "d.gguf")
    made.write(draft="d.gguf")
    return made
