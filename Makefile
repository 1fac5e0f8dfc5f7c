# What a person and CI run. `make` alone lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := curate-out/quickstart
TESTS ?= tests
BENCHMARK ?= pipeline

.PHONY: help env demo test check bench golden reference model lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(READY)  ## create .venv with the pinned packages and curate itself; redone when the lock or pyproject.toml changes

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "curate needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make env PYTHON=python3.12"; exit 1; }
	@echo "installing the pinned packages into $(VENV): once, one to four minutes"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: env  ## install, run the quickstart pipeline, verify it, and say what to try next
	$(BIN)/curate run examples/quickstart/pipeline.yaml --output $(DEMO)
	$(BIN)/curate verify $(DEMO)
	@printf '%s\n' '' \
	  'Made and verified: $(DEMO), from articles, citations, a crawl and general text. Try next:' \
	  '  source $(BIN)/activate' \
	  "$$(printf '  %-56s %s' 'curate report $(DEMO)' 'what came in, what became of it, and why')" \
	  "$$(printf '  %-56s %s' 'curate why $(DEMO) PMC2714198' 'one article: its place in the rows, and its citation')" \
	  "$$(printf '  %-56s %s' 'curate trace $(DEMO) train 5 1000' 'one token: which document and bytes it came from')"

test: env  ## run all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile $(TESTS)

check: env  ## formatting, lint, types, and who may import whom
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: env  ## run a benchmark: make bench BENCHMARK=pipeline
	$(BIN)/python -m benchmarks $(BENCHMARK)

golden: env  ## store the stages' outputs anew, after a change that raised their versions
	$(BIN)/python -m pytest tests/repository/test_golden.py --refresh-golden -q

reference: env  ## make the reference pages anew from the code
	$(BIN)/python -m docs.reference.make_reference

model: env  ## train the model of extractor fast anew, from the web pages beside the repository
	$(BIN)/python -m pip install --quiet --disable-pip-version-check lightgbm
	$(BIN)/python -m benchmarks.main_text

lock:  ## resolve all dependencies anew and write requirements.lock
	.ci/lock

clean:  ## remove what these targets made
	rm -rf $(VENV) $(DEMO) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist
