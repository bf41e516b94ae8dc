# `make demo` and `make test` each do all their own set-up in .venv; nothing but Python 3.11+ and make is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types docs examples package clean

$(VENV)/demo.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[demo]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[demo,test]'
	@touch $@

$(VENV)/lint.stamp: $(VENV)/test.stamp
	$(BIN)/pip install --quiet '.[lint]' && $(BIN)/pip install --quiet --editable .
	@touch $@

demo: $(VENV)/demo.stamp
	$(BIN)/python models/demo.py

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest -q -n auto

lint: $(VENV)/lint.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(VENV)/lint.stamp
	$(BIN)/pyright --pythonpath $(BIN)/python

$(VENV)/docs.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet '.[docs]' && $(BIN)/pip install --quiet --editable .
	@touch $@

docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The wheel in an environment of its own, and every example and page as a user would run them. Needs 3 GB and minutes.
examples: $(VENV)/test.stamp
	$(BIN)/python -m tests.examples.installed

package:
	$(PYTHON) -m venv $(VENV)/package
	$(VENV)/package/bin/pip install --quiet 'build>=1.2'
	$(VENV)/package/bin/python -m build --outdir dist .
	$(PYTHON) -m venv --clear $(VENV)/installed
	$(VENV)/installed/bin/pip install --quiet dist/*.whl
	cd / && $(abspath $(VENV))/installed/bin/castsmith --version

clean:
	rm -rf $(VENV) build dist site *.egg-info out
