# Every target sets up what it needs in .venv; set-up is skipped where it is current.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup bench test lint benchmarks clean

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

test: lint  ## run all checks: lint, types, layers, tests
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

lint: $(READY)  ## run the static checks alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

benchmarks: $(READY)  ## measure speed; prints ratios
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:  ## remove .venv and caches; runs are kept
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
