# `make demo` and `make test` are all that is needed; both make their own environment.
# PYTHON: interpreter that makes the environment (3.10 to 3.13). VENV: where it lies.
# TORCH: what `toolkit demo` and some tests need beside the package; TORCH= leaves it and them out.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
HAS_TORCH = $(BIN)/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'
NO_TORCH = $(if $(TORCH),$(TORCH) could not be installed (pip says why above),TORCH= asks for no torch)
MODEL ?= build/cost-model.json

.PHONY: help demo test lint check accuracy bench page-check notebooks docs command-pages shown-outputs engine-facts clean torch

help:
	@echo "make demo   fit the recorded runs in traces/ and predict which step count pays; then go round the"
	@echo "            whole loop on this CPU: serve, profile, fit, predict, run what is recommended"
	@echo "make test   run the tests (no GPU)"
	@echo "            both install $(TORCH), a large download on some systems; TORCH= does without it"
	@echo "make check  ruff, mypy, import contracts and the tests"
	@echo "make accuracy  how well fits and forecasts predict what they never saw"
	@echo "make bench  how fast large traces are read, beside other readers; writes docs/performance.md"
	@echo "make docs   the documents as web pages in build/docs/, every link checked"
	@echo "make command-pages  write the part of docs/commands/ that is made from the commands"
	@echo "make shown-outputs  write the outputs in README and documents as the commands print them"
	@echo "make notebooks  run the notebooks and write their executed copies again"
	@echo "make page-check  the report page in a real Chromium: figures drawn, sliders as \`toolkit predict\`"
	@echo "make engine-facts  read the hooked names and signatures from the engines' packages again"
	@echo "make clean  remove build/ and the environment"

demo: $(VENV)/installed torch
	@mkdir -p $(dir $(MODEL))
	@echo "== what the recorded runs cost: $(MODEL)"
	$(BIN)/toolkit model fit traces/ -o $(MODEL) --overwrite
	@echo "== one GPU, accept rate 0.36 as the engine's log prints it"
	$(BIN)/toolkit predict --model $(MODEL) --accept-rate 0.36 --engine sglang --tp-size 1
	@echo "== two GPUs"
	$(BIN)/toolkit predict --model $(MODEL) --accept-rate 0.36 --engine sglang --tp-size 2
	@if $(HAS_TORCH); then \
	  echo "== the whole loop, live on this CPU (about a minute)"; \
	  $(BIN)/toolkit demo; \
	else \
	  echo "== skipped: toolkit demo, the whole loop live on this CPU, because $(NO_TORCH)."; \
	fi

test: $(VENV)/installed-test torch
	@$(HAS_TORCH) || echo "== tests that start the reference engine are skipped, because $(NO_TORCH)."
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

# The tables of docs/accuracy.md: fits and forecasts on what they never saw. Takes about a minute.
accuracy: $(VENV)/installed-test
	$(BIN)/python -m tests.benchmarks.accuracy

# The table of docs/performance.md, about ten minutes: makes 3 GB in build/bench/, installs others in build/rivals/.
bench: $(VENV)/installed-test
	$(BIN)/python -m tests.benchmarks.speed --write

# Warnings are errors: a link that leads nowhere, a page that the index does not name.
docs: $(VENV)/installed-docs
	$(BIN)/python tools/command_pages.py --check
	$(BIN)/sphinx-build -q -W --keep-going -E -d build/docs-cache -c docs -b html . build/docs
	@echo "== build/docs/docs/index.html"

command-pages: $(VENV)/installed
	$(BIN)/python tools/command_pages.py

# Outputs that README and documents show; numbers in the prose around them are to be looked at by hand.
shown-outputs: $(VENV)/installed
	$(BIN)/python tools/shown_outputs.py

# notebooks/*.ipynb: the text notebooks with their outputs. Takes about half a minute.
notebooks: $(VENV)/installed
	$(BIN)/python tools/run_notebooks.py notebooks/*.py

# The report page in a headless Chromium, installed by apt-get where it is missing; skipped where it cannot be.
page-check: $(VENV)/installed
	$(BIN)/python tools/check_page.py

# What the hooks rely on in each engine release, read from the real packages: a renamed method shows here.
engine-facts: $(VENV)/installed
	$(BIN)/python tools/engine_facts.py tests/data/engine-facts

clean:
	rm -rf build $(VENV) toolkit.egg-info

# Not fatal: all but `toolkit demo` works without it, and what is skipped is said where it is.
torch: | $(BIN)/python
	@[ -z "$(TORCH)" ] || $(HAS_TORCH) || { echo "== installing $(TORCH)"; $(PIP) "$(TORCH)" || true; }

# A stamp each: nothing is installed again until what is to be installed changes.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: setup.cfg pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/installed-test: setup.cfg pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: setup.cfg pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-dev: setup.cfg pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/installed $(VENV)/installed-test
