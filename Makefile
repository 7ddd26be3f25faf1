# Every target works on a fresh clone: the environment is made when it is missing or out of date.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long test-papers test-matrix check unreached bench format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with the package, the papers and the tools

$(STAMP): pyproject.toml papers/pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python >= 3.11 is needed, and '$(PYTHON)' was not found; name another with: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python >= 3.11 is needed, and $(PYTHON) is $$($(PYTHON) --version 2>&1); name another with: make PYTHON=python3.11"; exit 1; }
	@java -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1 | \
		{ read -r found || found=0; [ "$${found:-0}" -ge 17 ]; } || \
		echo "note: no Java >= 17 found; the local runtime works without it (Debian/Ubuntu: install openjdk-17-jre-headless)"
	@test -x $(BIN)/python || { echo "making $(VENV) ..."; $(PYTHON) -m venv $(VENV); }
	@echo "installing slackwater and its tools (a minute or two the first time) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]' -e papers
	@echo "making machine code for the demonstration (a minute or so) ..."
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c 'from slackwater.cli.demo import make_machine_code as make; make()'
	@touch $@
	@echo "ready: $(BIN)/slackwater"

demo: $(STAMP) ## Play the demonstration
	@$(BIN)/slackwater demo

# Tests start some hundred processes; each would compile what it imports anew.
test test-long test-papers test-matrix: export PYTHONDONTWRITEBYTECODE :=

test: $(STAMP) ## Run all tests, doctests and documented examples
	@$(BIN)/python -m tests.kit.warm
	@$(BIN)/python -m pytest -n 3 --dist loadgroup

test-long: $(STAMP) ## The same on sixteen times as many traces, and on Spark whatever shards in process do
	@$(BIN)/python -m tests.kit.warm
	@SLACKWATER_EXAMPLES=96 SLACKWATER_SPARK=all $(BIN)/python -m pytest -n 3 --dist loadgroup

test-papers: $(STAMP) ## Run the tests of papers/: experiments, datasets, published baselines
	@$(BIN)/python -m pytest -n 3 papers

test-matrix: $(STAMP) ## Run what a newcomer does first on PySpark 3.5 to 4.3, each in an environment of its own
	@$(BIN)/python -m tests.matrix

check: $(STAMP) ## Check format, lint, types and the import contract
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.house

unreached: $(STAMP) ## List the functions that nothing in README, docs, examples or the command line reaches
	@$(BIN)/python -m tests.unreached

bench: $(STAMP) ## Run the benchmarks: kernels beside the last tag's, then Spark beside its own operators
	@$(BIN)/python -m benchmarks.core; core=$$?; $(BIN)/python -m benchmarks.holistic || core=$$?; \
	$(BIN)/python -m benchmarks.probe_order; \
	$(BIN)/python -m benchmarks.window_length; $(BIN)/python -m benchmarks.spark_floor; $(BIN)/python -m benchmarks.spark && exit $$core

format: $(STAMP) ## Put the code into its format
	@$(BIN)/ruff check --fix --select I .
	@$(BIN)/ruff format .

clean: ## Remove the environment, caches and build output
	@rm -rf $(VENV) .venv-matrix build dist src/*.egg-info papers/*.egg-info papers/build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src papers tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
