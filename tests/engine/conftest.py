"""Tiny models built once a session, engines opened on them, and whole runs."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from power.backends.interface import Engine, EngineConfig, SamplingConfig, Session
from power.backends.llamacpp import BACKEND
from power.backends.llamacpp.drafters import DRAFTERS
from power.speculation.controller import make_controller
from power.speculation.outcome import ControllerKind, Outcome, Settings
from power.speculation.scheduler import generate
from tools.build_drafts import catalogue, qwen35

_TOOL = Path(__file__).parents[2] / "tools" / "build_fixtures.py"


def _tool(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("engine")


@pytest.fixture(scope="session")
def build_fixtures() -> Callable[[Path], Mapping[str, tuple[Path, ...]]]:
    """Writes every tiny model below a folder: name -> its file, or its shards in order."""
    plain: Callable[[Path], Mapping[str, tuple[Path, ...]]] = _tool(_TOOL).build

    def build(folder: Path) -> Mapping[str, tuple[Path, ...]]:
        heads = {name: (path,) for name, path in catalogue.build(folder).items()}
        return {**plain(folder), **qwen35.build(folder), **heads}

    return build


@pytest.fixture(scope="session")
def models(
    build_fixtures: Callable[[Path], Mapping[str, tuple[Path, ...]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, tuple[Path, ...]]:
    """The tiny models of the session."""
    return build_fixtures(tmp_path_factory.mktemp("gguf"))


@dataclass
class Lab:
    """Opens engines, runs requests on them, and closes all at the end."""

    models: Mapping[str, tuple[Path, ...]]
    engines: list[Engine] = field(default_factory=list)

    def open(
        self,
        strategy: str = "off",
        *,
        target: str = "target",
        draft: str = "draft",
        progress: Callable[[float], None] = lambda _: None,
        **config: Any,
    ) -> Engine:
        """An engine on tiny models; K is 7 unless `config` says otherwise."""
        used = DRAFTERS[strategy].uses_draft(config.get("fr_rule", "full"))
        with self.fds(target) as of_target, self.fds(draft) as of_draft:
            settings = {"context": 512, "threads": 1, "prefill_batch": 32, "draft_max": 7} | config
            engine = BACKEND.open(
                EngineConfig(
                    target=of_target,
                    draft=of_draft if used else (),
                    strategy=strategy,
                    **settings,
                ),
                progress,
            )
        self.engines.append(engine)
        return engine

    def fds(self, name: str) -> _Open:
        """Open descriptors of a model's files, closed when the block ends."""
        return _Open(self.models[name])

    def run(
        self,
        engine: Engine,
        prompt: Sequence[int],
        *,
        k: int = 7,
        snapshots: int | None = None,
        controller: ControllerKind = "fixed",
        session: Session | None = None,
        max_tokens: int = 100,
        context: int = 512,
        control: bool = False,
        sampling: SamplingConfig | None = None,
        stop: Sequence[bytes] = (),
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """One whole request through the scheduler; S is K unless `snapshots` says otherwise."""
        window = k if snapshots is None else snapshots
        settings = Settings(
            draft_max=k,
            draft_min=0,
            window=window,
            snapshots=window,
            context=context,
            controller=controller,
        )
        session = session or engine.session(sampling or SamplingConfig(), control=control)
        return generate(
            prompt=prompt,
            target=session.target,
            proposer=session.proposer,
            sampler=session.sampler,
            vocabulary=engine.vocabulary,
            controller=make_controller(settings, session.proposer),
            settings=settings,
            max_tokens=max_tokens,
            stop=stop,
            emit=lambda _ids, _text: None,
            cancelled=cancelled,
            clock=iter(range(1 << 62)).__next__,
        )


class _Open:
    def __init__(self, paths: Sequence[Path]) -> None:
        self._fds = tuple(os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths)

    def __enter__(self) -> tuple[int, ...]:
        return self._fds

    def __exit__(self, *_: object) -> None:
        for fd in self._fds:
            os.close(fd)


@pytest.fixture
def lab(models: Mapping[str, tuple[Path, ...]]) -> Iterator[Lab]:
    lab = Lab(models)
    yield lab
    for engine in lab.engines:
        engine.close()
