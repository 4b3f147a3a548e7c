# `make demo` and `make test` need only Python 3.11+ and make; each builds the environment it needs.
PYTHON ?= python3
VENV := .venv
DOCS := .venv-docs
PEERS := .venv-peers
REBEL := .venv-rebel
CLUSTER := .venv-cluster
CONNECT := .venv-connect
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-install test-cluster lint types docs pictures dist bench bench-cluster peers cluster lock clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done
	@echo 'Another interpreter: make test PYTHON=python3.13. Some tests: make test PYTEST_ARGS="tests/test_docs.py -x".'

demo: $(VENV)/.run ## install Faircount in .venv and run the demo, offline once installed
	$(BIN)/faircount demo
	@echo 'To have the command faircount in this terminal: . $(VENV)/bin/activate'

# One worker more than cores: some tests wait.
test: $(VENV)/.dev ## run all tests except the slow and cluster ones
	$(BIN)/python -m pytest -n $$($(BIN)/python -c 'import os; print(os.cpu_count() + 1)') $(PYTEST_ARGS)

# The coverage of the intervals, 100,000 damaged records, and 200 interrupts of each command.
test-slow: $(VENV)/.dev ## run the slow tests: coverage, damage, interrupts; about half an hour
	$(BIN)/python -m pytest -n auto -m slow $(PYTEST_ARGS)

test-install: $(VENV)/.dev ## install the wheel with pip, pipx, uvx and every Python found; needs a package index
	$(BIN)/python -m pytest -m install tests/test_installing.py $(PYTEST_ARGS)

test-cluster: cluster ## run the tests with a real Spark: needs Java 17 or newer; about 5 minutes
	$(CLUSTER)/bin/python -m pytest -m cluster tests/cluster $(PYTEST_ARGS)

lint: $(VENV)/.dev ## check style and formatting with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## check types with mypy, strictly
	$(BIN)/mypy

# The variable silences an advertisement of the theme.
docs: $(DOCS)/.docs ## build the site of the documentation into site/; a broken link or anchor fails
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict
	@echo "The site is in site/; to search it: python3 -m http.server --directory site"

pictures: $(VENV)/.dev ## redraw the pictures and screenshots of the documentation; needs Chromium
	$(BIN)/python -m tools.pictures
	$(BIN)/python -m tools.screenshots

dist: $(VENV)/.dev ## build wheel and source distribution into dist/
	$(BIN)/python -m hatchling build --clean

bench: $(VENV)/.dev $(PEERS)/.spikee $(REBEL)/.rebel ## measure speed, compared with spikee and a plain bootstrap
	$(BIN)/python -m bench.analyze --alone 1000000
	$(BIN)/python -m bench.intervals
	$(BIN)/python -m bench.added_statistics
	$(BIN)/python -m bench.journal
	$(BIN)/python -m bench.garak
	$(BIN)/python -m bench.readers
	$(BIN)/python -m bench.open_set
	$(BIN)/python -m bench.growth
	$(BIN)/python -m bench.extract
	$(BIN)/python -m bench.dataset_comparison
	$(BIN)/python -m bench.excel
	$(BIN)/python -m bench.compare
	$(BIN)/python -m bench.judges
	$(BIN)/python -m bench.attacks
	$(BIN)/python -m bench.rejudge
	$(BIN)/python -m bench.view
	$(BIN)/python -m bench.run --rebel $(REBEL)/bin/rebel

bench-cluster: cluster ## time an analysis on Spark
	$(CLUSTER)/bin/python -m bench.cluster

# The real spikee, in an environment of its own: the differential tests and the benchmarks run it.
peers: $(PEERS)/.spikee ## install the real spikee into .venv-peers

# Spark in an environment of its own, and the client of Spark Connect, which takes its place there, in another.
cluster: $(CLUSTER)/.spark $(CONNECT)/.spark ## install Spark into .venv-cluster, and its client into .venv-connect

# Hashed lock files for our own environments; pyproject.toml keeps only lower bounds.
lock: $(VENV)/.dev ## renew the lock files; pyproject.toml keeps only lower bounds
	$(PIP) install uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra gz --extra view --extra xlsx --extra zst --output-file requirements/run.lock pyproject.toml requirements/build.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra dev --output-file requirements/dev.lock pyproject.toml requirements/build.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra litellm --output-file requirements/litellm.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra spark --output-file requirements/cluster.lock pyproject.toml requirements/build.in requirements/cluster.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --output-file requirements/connect.lock pyproject.toml requirements/build.in requirements/connect.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --output-file requirements/docs.lock requirements/docs.in

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Faircount needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python requirements/run.lock pyproject.toml
	$(PIP) install --require-hashes -r requirements/run.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python requirements/dev.lock pyproject.toml
	$(PIP) install --require-hashes -r requirements/dev.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q src
	@touch $@ $(VENV)/.run

$(DOCS)/.docs: requirements/docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/docs.lock
	@touch $@

$(PEERS)/.spikee: requirements/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install -r requirements/peers.txt
	@touch $@

$(CLUSTER)/.spark: requirements/cluster.lock pyproject.toml
	$(PYTHON) -m venv $(CLUSTER)
	$(CLUSTER)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/cluster.lock
	$(CLUSTER)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	@touch $@

$(CONNECT)/.spark: requirements/connect.lock pyproject.toml
	$(PYTHON) -m venv $(CONNECT)
	$(CONNECT)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/connect.lock
	$(CONNECT)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	@touch $@

# REBEL, for the benchmark of runs alone: it takes 450 MB.
$(REBEL)/.rebel:
	$(PYTHON) -m venv $(REBEL)
	$(REBEL)/bin/python -m pip --disable-pip-version-check --quiet install rebel-eval==0.2.0
	@touch $@

clean: ## remove the environments, the site, dist/ and the caches of the tools
	rm -rf $(VENV) $(DOCS) $(PEERS) $(REBEL) $(CLUSTER) $(CONNECT) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
