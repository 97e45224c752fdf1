# Everything a person or CI needs. Each target makes what it needs in .venv; nothing else is to be done by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Leave one core free for nobody: tests run on as many workers as there are cores. What they compile is kept, also where
# the environment says otherwise: the many processes that they start would compile everything again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal
# Where tests keep what they fetch.
CACHE := $${FAIRCHAIN_CACHE:-$(CURDIR)/.cache}

.PHONY: help demo test test-all test-lowest fuzz check bench bench-paper bench-speed calibrate wheel-test docs clean

help:
	@echo "make demo      the main job, offline, on embedded networks; leaves a page to read in demo-report/"
	@echo "make test      tests, checks, and the wheel tried out in a clean environment"
	@echo "make test-all  what needs torch, transformers, Keras, XGBoost and others, mlflow, Dask, Ray, a model server or a browser, or fetches data, and make bench"
	@echo "make test-lowest  the core's tests with the lowest supported version of every package"
	@echo "make fuzz      100,000 damaged files over all formats, with a table of how they ended (about 20 minutes)"
	@echo "make check     formatting, lint, types, import contracts"
	@echo "make bench     every benchmark on small sizes, and their counts against the kept ones"
	@echo "make bench-paper  every benchmark in full: replaces the sections of benchmarks/RESULTS.md (MODELS=DIR adds the paper's networks)"
	@echo "make bench-speed  the speed claims alone, as ratios measured in one run (MODELS=DIR as above)"
	@echo "make calibrate  the error probability of every mode, thousands of runs each: writes benchmarks/CALIBRATION.md"
	@echo "make docs      the documentation site in docs/_build/html, warnings as errors"
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

# Programs of the system: Chromium opens pages, with the fonts that tests name, and Graphviz draws chains. What is
# missing is installed where the system is Debian.
$(VENV)/browser: $(VENV)/dev
	$(BIN)/python -m pip install --quiet playwright
	@for each in "chromium chromium-browser google-chrome:chromium" "dot:graphviz" "fc-list:fontconfig fonts-dejavu-core fonts-liberation"; do \
		command -v $${each%%:*} > /dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends $${each#*:} > /dev/null) || exit 1; \
	done
	@test -n "$$(fc-list 'DejaVu Sans')" && test -n "$$(fc-list 'Liberation Sans')" || (apt-get update -qq && apt-get install -y -qq --no-install-recommends fonts-dejavu-core fonts-liberation > /dev/null)
	@touch $@

$(VENV)/transformers: $(VENV)/torch
	$(BIN)/python -m pip install --quiet "transformers>=5.0" "safetensors>=0.5" "onnxscript>=0.2"
	@touch $@

# Boosted trees and the files of other packages, one after another; XGBoost without its GPU libraries.
$(VENV)/boosting: $(VENV)/dev
	for name in xgboost-cpu lightgbm catboost onnxmltools skops h5py; do $(BIN)/python -m pip install --quiet $$name || exit 1; done
	@touch $@

$(VENV)/mlflow: $(VENV)/dev
	$(BIN)/python -m pip install --quiet mlflow-skinny
	@touch $@

# Clusters on this machine; Ray without its dashboard.
$(VENV)/clusters: $(VENV)/dev
	$(BIN)/python -m pip install --quiet distributed
	$(BIN)/python -m pip install --quiet "ray[client]"
	@touch $@

# Model servers are processes of their own, with packages of their own.
$(VENV)-mlserver/done:
	$(PYTHON) -m venv $(VENV)-mlserver
	$(VENV)-mlserver/bin/python -m pip install --quiet mlserver==1.7.1
	$(VENV)-mlserver/bin/python -m pip install --quiet mlserver-sklearn==1.7.1
	@touch $@

$(VENV)-mlflow/done:
	$(PYTHON) -m venv $(VENV)-mlflow
	$(VENV)-mlflow/bin/python -m pip install --quiet mlflow
	@touch $@

$(VENV)/docs: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

demo: $(VENV)/core
	rm -rf demo-report
	$(BIN)/fairchain demo --report demo-report

# Lines that run in child processes are not counted; below the floor in pyproject.toml this fails.
test: $(VENV)/dev
	$(PYTEST) --cov --cov-report= -m "not network and not torch and not transformers and not keras and not browser and not mlflow and not boosting and not dask and not ray and not services and not fuzz"
	$(MAKE) --no-print-directory check
	$(MAKE) --no-print-directory wheel-test

test-all: $(VENV)/torch $(VENV)/transformers $(VENV)/browser $(VENV)/mlflow $(VENV)/boosting $(VENV)/clusters $(VENV)-mlserver/done $(VENV)-mlflow/done
	FAIRCHAIN_CACHE=$(CACHE) FAIRCHAIN_MLSERVER=$(CURDIR)/$(VENV)-mlserver FAIRCHAIN_MLFLOW=$(CURDIR)/$(VENV)-mlflow FAIRCHAIN_NO_SKIP=1 KERAS_BACKEND=torch $(PYTEST) -m "network or torch or transformers or keras or browser or mlflow or boosting or dask or ray or services or fuzz"
	FAIRCHAIN_CACHE=$(CACHE) $(MAKE) --no-print-directory bench
	$(MAKE) --no-print-directory test-lowest
	$(MAKE) --no-print-directory docs

# A link to a page or heading that does not exist is an error; external links need an internet connection:
# .venv/bin/python -m sphinx -b linkcheck docs docs/_build/links
docs: $(VENV)/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "read docs/_build/html/index.html"

# The lowest versions that pyproject.toml allows, in an environment of their own. What they can break: reading specs,
# tables and models, the commands, the numbers that scipy and numpy give, certificates that were kept, and every example
# of the package. Error probabilities and proofs against brute force do not depend on versions.
LOWEST := src tests/spec tests/tables tests/models tests/cli tests/chain/test_formats.py tests/populations \
	tests/statistics/test_interval.py tests/statistics/test_counts.py tests/statistics/test_many_pairs.py \
	tests/rechecking/test_kept_certificates.py tests/verification/test_properties.py tests/verification/test_rows.py

$(VENV)-lowest/done: pyproject.toml tests/lowest.txt
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --constraint tests/lowest.txt --editable ".[parquet,sklearn]" fairlearn pandas pytest pytest-xdist hypothesis jsonschema
	@touch $@

test-lowest: $(VENV)-lowest/done
	PYTHONDONTWRITEBYTECODE= $(VENV)-lowest/bin/python -m pytest -n auto --dist worksteal -p no:cacheprovider -m "not network and not torch and not transformers and not keras and not browser and not mlflow and not boosting and not dask and not ray and not services and not fuzz" $(LOWEST)

# SEED chooses other mutants; what fails is printed with the command that repeats it.
fuzz: $(VENV)/torch
	$(BIN)/python -m tests.fuzzing --total 100000 --seed $(or $(SEED),0)

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks --size quick $(if $(MODELS),--models $(MODELS))

# What two of the eight cases and the repairs need; nothing is fetched again.
bench-paper: $(VENV)/dev
	$(BIN)/fairchain data get census credit toxicity glove
	$(BIN)/python -m benchmarks --size paper $(if $(MODELS),--models $(MODELS))

bench-speed: $(VENV)/dev
	$(BIN)/python -m benchmarks speed --size paper $(if $(MODELS),--models $(MODELS))

# A small version of this is part of make test.
calibrate: $(VENV)/dev
	$(BIN)/python -m benchmarks calibration --size paper

# The wheel and the source archive as a stranger gets them: built, installed where nothing else is, and run from
# another folder.
wheel-test: $(VENV)/dev
	rm -rf dist $(VENV)-wheel
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet dist/*.whl
	cd dist && ../$(VENV)-wheel/bin/fairchain demo --quiet
	$(VENV)-wheel/bin/python -m pip uninstall --quiet --yes fairchain
	$(VENV)-wheel/bin/python -m pip install --quiet dist/*.tar.gz
	cd dist && ../$(VENV)-wheel/bin/fairchain demo --quiet

clean:
	rm -rf $(VENV) $(VENV)-wheel $(VENV)-lowest $(VENV)-mlserver $(VENV)-mlflow dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .cache .coverage demo-report docs/_build
