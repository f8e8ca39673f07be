# `make` lists what there is. Every target makes .venv first, if it is not there or its inputs have changed.
#   make setup PYTHON=/path/to/python3.12     another Python
#   make setup TORCH="torch==2.14.1 ..."      another build of torch, in pip's words
#   make test WORKERS=8 ARGS="-k rotary"      more processes, some of the tests

VENV := .venv/bin
WORKERS ?= 2
ARGS ?=
export PYTHON TORCH

# One thread in each process: the tests then measure the same on every machine, and processes do not fight for cores.
PYTEST := OMP_NUM_THREADS=1 $(VENV)/python -m pytest -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint format bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## make or update .venv with everything that Lengthwise needs
	@sh scripts/setup.sh

demo: setup ## train the quick studies and build their report page: minutes, no account, no GPU
	@$(VENV)/lengthwise demo

test: setup ## run the tests (about 15 minutes on 2 cores)
	$(PYTEST) -m "not slow" $(ARGS)

test-all: setup ## run the slow tests too
	$(PYTEST) $(ARGS)

lint: setup ## check style, types and which room imports which
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	$(VENV)/mypy
	$(VENV)/lint-imports

format: setup ## put the code in the house style
	$(VENV)/ruff check --fix
	$(VENV)/ruff format

bench: setup ## measure speed
	@for file in benchmarks/*.py; do echo "== $$file"; $(VENV)/python "$$file" || exit; done

clean: ## remove .venv and the caches; runs in outputs/ stay
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +
