# Every target sets up what it needs in .venv; set-up is skipped where it is current.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FUZZ_CASES ?= 100000
FUZZ_SEED ?= 0
# Not among `make benchmarks`: what measures no speed or needs packages or data of others or tens of gigabytes, and modules that scripts share.
ALONE := $(patsubst %,benchmarks/%.py,peers peer_contests imagenet_sized head_tasks head_table heads recipe tabular flags cross instruction_sets levels intervals auxiliary_losses serve)

.DEFAULT_GOAL := help
.PHONY: help setup bench test testall lint docs package fuzz kills benchmarks clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv and install VOLTA with everything the tests need

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("VOLTA needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $@

bench: $(READY)  ## run the benchmark on the embedded task; ends with the path of the report
	$(BIN)/volta bench digits --ablation --seeds 5

test: lint  ## run lint, types, layers and the tests, but for the slowest
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m "not slow"

testall: lint  ## run lint, types, layers and every test
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

lint: $(READY)  ## run the static checks alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(READY)  ## build the documentation into site/, strictly; nothing is fetched
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

package: $(READY)  ## build wheel and sdist, install them with the lowest and the newest dependencies, run README's example
	$(BIN)/python .ci/package.py

fuzz: $(READY)  ## read FUZZ_CASES damaged files; prints what came of them
	$(BIN)/python -m tests.fuzz --cases $(FUZZ_CASES) --seed $(FUZZ_SEED)

kills: $(READY)  ## kill 200 commands at random moments; prints what came of it
	$(BIN)/python -m tests.kills

benchmarks: $(READY)  ## measure speed; prints ratios
	for script in $(filter-out $(ALONE),$(wildcard benchmarks/*.py)); do $(BIN)/python $$script || exit 1; done

clean:  ## remove .venv and caches; runs are kept
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
