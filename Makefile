# Two commands do all: `make demo` and `make test`. `make help` lists the rest.
#
# Everything is installed into one virtual environment, .venv, and the second run of a target
# finds it there: it is made again only when pyproject.toml has changed since.

PYTHON ?= python3
VENV   ?= .venv
MODEL  ?= smollm2-135m
PROMPT ?= Repeat after me: she sells sea shells by the sea shore.
PYTEST_ARGS ?=
LOCKED ?=

BIN  := $(VENV)/bin
UV   := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
PIP  := $(BIN)/python -m pip install --quiet

# LOCKED=1: every package by its digest, from requirements/, those that build among them.
ifeq ($(LOCKED),)
INSTALL     = $(PIP) --editable .
INSTALL_DEV = $(PIP) --editable '.[dev]'
else
INSTALL     = $(PIP) --require-hashes -r requirements/build.txt && \
  $(PIP) --require-hashes --no-build-isolation -r requirements/run.txt && \
  $(PIP) --no-deps --no-build-isolation --editable .
INSTALL_DEV = $(PIP) --require-hashes --no-build-isolation -r requirements/ci.txt
endif
LOCK := manifests/$(MODEL).lock
KEY  := keys/demo.pem
RECEIPT := receipts/demo-$(shell date -u +%Y%m%dT%H%M%SZ).sigstore.json
NPM  := tests/receipt/npm

export POWER_ARTIFACTS ?= $(CURDIR)/artifacts
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

.DELETE_ON_ERROR:
.PHONY: help lock demo test lint types units quick docs models parity matrix bench clean

help: ## Show the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(VENV)/.installed ## Fetch SmolLM2, compile its manifest, run the plan, verify the receipt
	$(BIN)/python tools/fetch_models.py $(MODEL)
	test -f $(KEY) || $(BIN)/power key new $(KEY)
	$(BIN)/power compile manifests/$(MODEL).toml -o $(LOCK)
	@mkdir -p receipts
	$(BIN)/power run $(LOCK) --chat --prompt "$(PROMPT)" --key $(KEY) --receipt $(RECEIPT)
	$(BIN)/power verify $(RECEIPT) --key $(KEY).pub --plan $(LOCK)

test: lint types units ## Lint, types, and every test, with the coverage floor

lint: $(VENV)/.installed-dev ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## mypy, strict, over the package, its tests and its tools
	$(BIN)/mypy

units: $(VENV)/.installed-dev npm ## pytest; PYTEST_ARGS="tests/plan -x" picks some
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(if $(PYTEST_ARGS),@echo "coverage floor not checked: PYTEST_ARGS picks some tests",$(BIN)/coverage report)

quick: $(VENV)/.installed-dev npm ## Every test, in up to four processes, without coverage
	$(BIN)/python -m pytest --numprocesses=logical --maxprocesses=4 --dist=loadfile

docs: $(VENV)/.installed ## Write the generated parts of docs/reference again
	$(BIN)/python tools/update_docs.py

lock: ## Pin the packages of requirements/ again, by digest (needs uv)
	$(UV) --extra dev pyproject.toml requirements/build.in -o requirements/ci.txt
	$(UV) requirements/build.in -c requirements/ci.txt -o requirements/build.txt
	$(UV) pyproject.toml -c requirements/ci.txt -o requirements/run.txt

models: $(VENV)/.installed ## Fetch every model that tests and benchmarks can use (2 GB)
	$(BIN)/python tools/fetch_models.py smollm2-135m gemma-3-270m qwen2.5-coder-1.5b qwen2.5-coder-0.5b vocab

parity: $(VENV)/.installed ## Compare speculative with plain decoding on real models
	$(BIN)/python tools/fetch_models.py smollm2-135m
	$(BIN)/python -m tools.parity smollm2
	@if ls artifacts/qwen2.5-coder-1.5b-*.gguf artifacts/qwen2.5-coder-0.5b-*.gguf >/dev/null 2>&1; \
	then set -x; $(BIN)/python -m tools.parity qwen; \
	else echo "SKIPPED: Qwen2.5-Coder is not here; make models fetches it" >&2; fi

matrix: $(VENV)/.installed ## Compare every strategy with its control on tiny models (20 minutes)
	$(BIN)/python -m tools.exactness_matrix --write

bench: $(VENV)/.installed ## Measure Power's own cost, as ratios within one run
	$(BIN)/python tools/fetch_models.py smollm2-135m
	$(BIN)/python -m tools.bench_decode
	$(BIN)/python -m tools.bench_scheduler
	$(BIN)/python -m tools.bench_headers artifacts/*.gguf
	@set -- artifacts/*.gguf; if [ $$# -ge 2 ]; \
	then set -x; $(BIN)/python -m tools.bench_hash $$1 $$2; \
	else echo "SKIPPED: hashing of two files needs a second model; make models fetches some" >&2; fi

clean: ## Remove what was built here; artifacts, keys and receipts stay
	rm -rf $(VENV) build dist .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf $(NPM)/node_modules

# --- the environment ------------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Power needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@command -v c++ >/dev/null || \
	  { echo "llama-cpp-python is built from source and needs a C++ compiler (g++ or clang)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "installing Power; the first time this builds llama.cpp, which takes minutes"
	$(INSTALL)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL_DEV)
	@touch $@

.PHONY: npm
npm:
	@if [ ! -f $(NPM)/package-lock.json ]; then :; \
	elif ! command -v npm >/dev/null; then \
	  echo "SKIPPED: no npm here, so no receipt is checked by @sigstore/verify" >&2; \
	elif [ ! $(NPM)/node_modules/.package-lock.json -nt $(NPM)/package-lock.json ]; then \
	  echo "npm ci in $(NPM)"; npm ci --prefix $(NPM) --no-audit --no-fund --ignore-scripts --loglevel=error; \
	fi
