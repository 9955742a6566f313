# `make demo` and `make test` are all that is needed; both make their own environment.
# PYTHON: interpreter that makes the environment (3.10 to 3.13). VENV: where it lies.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
MODEL := build/cost-model.json

.PHONY: help demo test lint check engine-facts clean

help:
	@echo "make demo   fit the recorded runs in traces/ and predict which step count pays"
	@echo "make test   run the tests (no GPU, no torch)"
	@echo "make check  ruff, mypy, import contracts and the tests"
	@echo "make engine-facts  read the hooked names and signatures from the engines' packages again"
	@echo "make clean  remove build/ and the environment"

demo: $(VENV)/installed
	@mkdir -p build
	@echo "== what the recorded runs cost: $(MODEL)"
	$(BIN)/toolkit model fit traces/ -o $(MODEL) --overwrite
	@echo "== one GPU, accept rate 0.36 as the engine's log prints it"
	$(BIN)/toolkit predict --model $(MODEL) --accept-rate 0.36 --engine sglang --tp-size 1
	@echo "== two GPUs"
	$(BIN)/toolkit predict --model $(MODEL) --accept-rate 0.36 --engine sglang --tp-size 2

test: $(VENV)/installed-test
	$(BIN)/python -m pytest

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

# What the hooks rely on in each engine release, read from the real packages: a renamed method shows here.
engine-facts: $(VENV)/installed
	$(BIN)/python tools/engine_facts.py tests/data/engine-facts

clean:
	rm -rf build $(VENV) toolkit.egg-info

# A stamp each: nothing is installed again until what is to be installed changes.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: setup.cfg pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/installed-test: setup.cfg pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-dev: setup.cfg pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/installed $(VENV)/installed-test
