# Two commands do all: `make demo` and `make test`. Both make their own environment in .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]' --group dev
# One more than there are cores: crash tests wait for leases of the dead.
WORKERS := $(shell $(PYTHON) -c "import os; print(min(4, (os.cpu_count() or 1) + 1))")

# Tests start hundreds of processes: what one of them has compiled, the others need not.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test quick lint check coverage bench soak format constraints wheel-check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Set everything up and run the main job on the sample
	$(BIN)/omnigraph demo

# Tests of pure code. Those of `storage`, `spark`, `server` and others need tables, a JVM or sockets, and take longer.
QUICK := $(addprefix tests/unit/,analytics catalog cli compiler evolution maintenance merging mutating pipelines policy query recovery remote syntax write)

test: $(READY) ## Set everything up and run the tests
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadgroup --max-worker-restart 0

quick: $(READY) ## Run the tests of pure code, in less than a minute
	$(BIN)/python -m pytest -q --numprocesses 2 -m 'not hypothesis' $(QUICK)  # random cases are for `make test`

lint: $(READY) ## Check style, names, texts and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tools.names
	$(BIN)/python -m tools.texts
	$(BIN)/mypy

check: lint test ## Run what CI runs

coverage: TESTS ?= tests
coverage: $(READY) ## Measure which lines the tests run; TESTS=tests/unit for a part of them
	$(BIN)/python -m pytest -q --numprocesses $(WORKERS) --dist loadgroup --max-worker-restart 0 --cov --cov-report= $(TESTS)
	$(BIN)/coverage report --skip-covered --sort cover
	$(BIN)/coverage html --quiet && echo "line by line: htmlcov/index.html"

bench: $(READY) ## Measure; prints ratios with the raw numbers beside them
	$(BIN)/python -m benchmarks

soak: export OMNIGRAPH_SOAK = 1
soak: $(READY) ## Try many more random histories, killed processes and damaged files than the tests do
	OMNIGRAPH_HISTORIES=20000 $(BIN)/python -m pytest -q tests/behaviour/test_model.py
	OMNIGRAPH_SCHEMA_CHAINS=500 $(BIN)/python -m pytest -q tests/behaviour/test_schema_chains.py
	$(BIN)/python -m pytest -q tests/behaviour/test_pairs_of_writers.py
	OMNIGRAPH_SPARK_EACH=8 $(BIN)/python -m pytest -q tests/engines/test_executors_agree.py
	$(BIN)/python -m pytest -q tests/behaviour/test_random_mutations.py
	$(BIN)/python -m pytest -q tests/corruption
	$(BIN)/python -m tests.corruption
	OMNIGRAPH_POWER_CUTS=200 $(BIN)/python -m pytest -q tests/crash tests/behaviour/test_server_under_load.py
	$(BIN)/python -m benchmarks bounded_memory
	$(BIN)/python -m pytest -q -rs tests/consistency
	$(BIN)/python -m tests.consistency --store disk --operations 10000
	$(BIN)/python -m tests.consistency --store moto --operations 1000
	$(BIN)/python -m tests.consistency --store minio --operations 1000
	$(BIN)/python -m tests.consistency --store azurite --operations 1000

format: $(READY) ## Rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

constraints: $(READY) ## Install the newest versions that pyproject.toml allows, and write them to constraints.txt
	$(INSTALL) --upgrade --upgrade-strategy eager
	$(BIN)/python -m tools.constraints
	@touch $(READY)
	@echo "run \`make check\`, and commit constraints.txt if everything passes"

wheel-check: $(READY) ## Install the wheel without extras and with each one in new environments, and try them
	$(BIN)/python -m tools.wheel_check

clean: ## Remove the environment and every cache
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "OmniGraph needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@echo "setting up $(VENV) (once; Spark is large)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(INSTALL) --constraint constraints.txt
	@touch $(READY)
