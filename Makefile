# Everything a person or CI needs. Each target makes what it needs in .venv; nothing else is to be done by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Leave one core free for nobody: tests run on as many workers as there are cores.
PYTEST := $(BIN)/python -m pytest -n auto

.PHONY: help demo test test-all check bench wheel-test clean

help:
	@echo "make demo      a first verdict, offline, on embedded networks"
	@echo "make test      tests, checks, and the wheel tried out in a clean environment"
	@echo "make test-all  what needs torch or Keras or fetches data, besides"
	@echo "make check     formatting, lint, types, import contracts"
	@echo "make bench     the speed claims, as ratios measured in one run (MODELS=DIR adds the paper's networks)"
	@echo "make clean     remove what these targets made"

$(VENV)/core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

# torch in the version that is tested; plain pip, since a CPU build may be provided that other installers do not see.
$(VENV)/torch: $(VENV)/dev
	$(BIN)/python -m pip install --quiet torch==2.13.0 onnxscript
	$(BIN)/python -m pip install --quiet keras
	@touch $@

demo: $(VENV)/core
	$(BIN)/fairchain demo

test: $(VENV)/dev
	$(PYTEST) -m "not network and not torch and not keras"
	$(MAKE) --no-print-directory check
	$(MAKE) --no-print-directory wheel-test

test-all: $(VENV)/torch
	FAIRCHAIN_NO_SKIP=1 KERAS_BACKEND=torch $(PYTEST) -m "network or torch or keras"

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks.bench $(if $(MODELS),--models $(MODELS))

# The wheel as a stranger gets it: built, installed where nothing else is, and run from another folder.
wheel-test: $(VENV)/dev
	rm -rf dist $(VENV)-wheel
	$(BIN)/python -m build --wheel --outdir dist . > /dev/null
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet dist/*.whl
	cd dist && ../$(VENV)-wheel/bin/fairchain demo --quiet

clean:
	rm -rf $(VENV) $(VENV)-wheel dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
