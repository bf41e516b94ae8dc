# `make demo` and `make test` each do all their own set-up in .venv; nothing but Python 3.11+ and make is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests that take seconds and depend on how the libraries behave.
QUICK := tests/passes/test_golden.py tests/ir tests/analysis tests/verification tests/lowering/test_custom.py \
	tests/lowering/opset/test_version.py \
	tests/targets/test_target.py tests/numerics/cast/test_convert.py \
	tests/numerics/promotion/test_common.py tests/numerics/promotion/test_rules.py tests/cli/commands/test_optimize.py \
	tests/cli/commands/test_check.py tests/cli/test_main.py tests/examples/test_composition.py \
	tests/passes/test_managers.py tests/examples/test_extension.py tests/test_extensions.py \
	tests/packaging/test_packaging.py tests/test_models.py
QUICK_NEEDS := pytest pytest-xdist hypothesis onnxruntime
MODULE ?= numerics/trunc.py
PYTHONS ?= python3.12 python3.13

# With it each process that a test starts would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test exhaustive web mutants benchmarks lint types docs examples package oldest newest matrix integrations clean

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

# A sample of the largest domains; its last lines name the slowest tests, what was skipped, what was sampled, and the seed.
test: $(VENV)/test.stamp
	$(BIN)/python -m pytest -q -n auto --dist loadfile --durations=10

# Every case of every domain.
exhaustive: $(VENV)/test.stamp
	CASTSMITH_COMPLETE=1 $(BIN)/python -m pytest -q -n auto --dist loadfile

# Every mistake that cosmic-ray can plant in one module, one at a time, and those that no test notices. Takes ten minutes more than
# the mistakes do: every test runs once, to know which lines it reaches.
mutants: $(VENV)/test.stamp
	$(BIN)/pip install --quiet 'cosmic-ray>=8.4' 'coverage>=7.10'
	$(BIN)/python -m tests.soak.reached $(VENV)/reached.json
	$(BIN)/python -m tests.soak.planted $(VENV)/reached.json --every $(MODULE)

# Every recorded benchmark that needs no other software, and the pages with its tables; `ARGUMENTS=--list` says how long each
# takes. Takes up to two hours, and 30 GB in the folder given as `ARGUMENTS="--folder DIR"`.
benchmarks: $(VENV)/test.stamp
	$(BIN)/python -m benchmarks.record all $(ARGUMENTS)

# Lowered models in onnxruntime-web. Needs Node and npm.
web: $(VENV)/test.stamp
	npm install --prefix $(VENV)/web --no-save --ignore-scripts --no-audit --no-fund onnxruntime-web@1.30.0
	CASTSMITH_WEB=$(VENV)/web $(BIN)/python -m pytest -q tests/lowering/float8/test_phones.py

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

# The wheel is built from the source distribution, so that it shows what that lacks.
package: $(VENV)/lint.stamp
	rm -rf dist build
	$(BIN)/pip install --quiet 'build>=1.2'
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m tests.packaging.packaged --venv $(VENV)/installed

# The quick tests, out of the source distribution, with the oldest and the newest releases that pyproject.toml allows.
oldest newest:
	rm -rf $(VENV)/$@ && $(PYTHON) -m venv $(VENV)/$@
	test -f dist/*.tar.gz || $(MAKE) package
	mkdir $(VENV)/$@/source && tar -xzf dist/*.tar.gz --strip-components=1 -C $(VENV)/$@/source
	$(if $(filter oldest,$@),$(PYTHON) tests/packaging/oldest.py,true) > $(VENV)/$@/constraints.txt
	$(VENV)/$@/bin/pip install --quiet --constraint $(VENV)/$@/constraints.txt \
		--editable $(VENV)/$@/source $(QUICK_NEEDS)
	cd $(VENV)/$@/source && ../bin/python -m pytest -q -n auto -p no:cacheprovider $(QUICK)

# The same with other Pythons, those that are there: make matrix PYTHONS="python3.12 python3.13"
matrix:
	for python in $(PYTHONS); do \
		if $$python -c pass 2> /dev/null; then \
			$(MAKE) oldest newest PYTHON=$$python VENV=$(VENV)-$$(basename $$python) || exit 1; \
		else echo "there is no $$python here"; fi; \
	done

# The real tools that Castsmith works inside of, in an environment of their own. Needs 3 GB.
integrations:
	$(PYTHON) -m venv $(VENV)/integrations
	$(VENV)/integrations/bin/pip install --quiet --editable '.[integrations,test]'
	$(VENV)/integrations/bin/python -m pytest -q tests/integrations
	$(VENV)/integrations/bin/python -m tests.examples.pages docs/howto/inside.md

clean:
	rm -rf $(VENV) $(VENV)-* build dist site *.egg-info out
