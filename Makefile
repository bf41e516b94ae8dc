# `make demo` and `make test` each do all their own set-up in .venv; nothing but Python 3.11+ and make is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types clean

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
	$(BIN)/pyright

clean:
	rm -rf $(VENV) build *.egg-info out
