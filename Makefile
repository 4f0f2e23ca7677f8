# Two commands do all: `make demo` and `make test`. Both make their own environment in .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One more than there are cores: crash tests wait for leases of the dead.
WORKERS := $(shell $(PYTHON) -c "import os; print(min(4, (os.cpu_count() or 1) + 1))")

# Tests start hundreds of processes: what one of them has compiled, the others need not.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lint check bench soak format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Set everything up and run the main job on the sample
	$(BIN)/omnigraph demo

test: $(READY) ## Set everything up and run the tests
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadgroup --max-worker-restart 0

lint: $(READY) ## Check style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test ## Run what CI runs

bench: $(READY) ## Measure; prints ratios with the raw numbers beside them
	$(BIN)/python -m benchmarks

soak: export OMNIGRAPH_SOAK = 1
soak: $(READY) ## Try many more random histories, killed processes and damaged files than the tests do
	OMNIGRAPH_HISTORIES=20000 $(BIN)/python -m pytest -q tests/behaviour/test_model.py
	OMNIGRAPH_SCHEMA_CHAINS=500 $(BIN)/python -m pytest -q tests/behaviour/test_schema_chains.py
	$(BIN)/python -m pytest -q -rP tests/corruption
	OMNIGRAPH_POWER_CUTS=200 $(BIN)/python -m pytest -q tests/crash tests/behaviour/test_server_under_load.py
	$(BIN)/python -m pytest -q -rs tests/consistency
	$(BIN)/python -m tests.consistency --store disk --operations 10000
	$(BIN)/python -m tests.consistency --store moto --operations 1000
	$(BIN)/python -m tests.consistency --store minio --operations 1000
	$(BIN)/python -m tests.consistency --store azurite --operations 1000

format: $(READY) ## Rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove the environment and every cache
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "OmniGraph needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@echo "setting up $(VENV) (once; Spark is large)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $(READY)
