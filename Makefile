# Everything happens in the virtual environment .venv; PYTHON names the interpreter it is made of.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test lint lab clean help

help:  ## Show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 8

demo: $(VENV)/installed  ## Run the HOT experiment on a real PostgreSQL 18; about three minutes
	$(BIN)/benchkit run hot_update_benefit --profile smoke -p scale=10 -p clients=4 -p duration_s=3 \
	  -p rounds=5 -p tuned_shared_buffers=256MB -p 'shared_buffers=["16MB", "1GB"]'

test: $(VENV)/installed-dev  ## Run all tests
	$(BIN)/python -m pytest

lint: $(VENV)/installed-dev  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lab: $(VENV)/installed  ## Open the notebooks in JupyterLab
	$(BIN)/jupyter lab --notebook-dir=notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

clean:  ## Remove the virtual environment and caches; measured runs stay
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "benchkit needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1'

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) install --quiet --constraint constraints.txt --editable '.[releases]' --group dev
	@touch $@
