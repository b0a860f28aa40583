# make demo   the whole loop, small        make test    the tests, but for slow ones (make test-slow)
# make compiled  the engine, three times as fast, where there is a C compiler (docs/compiled.md)
# make check  lint, types, all tests       make setup   the environment in .venv alone
# make explore   properties with new examples each time (pytest's --hypothesis-seed brings one back)
# make validity   docs/validity.md with its figures: hours of simulation, resumed where they were interrupted
# Another interpreter: make setup PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test test-slow explore check validity compiled clean

setup: $(STAMP)

# Only a change of what is to be installed makes it anew.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "streamtwin needs Python 3.11 or newer, and '$(PYTHON)' is" \
			"'$$($(PYTHON) --version 2>&1)'; name another: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { \
		echo "'$(PYTHON)' has no venv module; install it (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup
	$(BIN)/twin demo

# Spark forks a JVM launcher, which JAX's threads do not survive for sure: processes of its own, which read no other
# tests. All are shared out to a process a core, file by file, since the tests of a file share what they set up. Guards
# are provoked inside the engine, which only plain Python allows.
PYTEST := $(BIN)/python -m pytest -q --dist loadfile
SPARK = $$(grep -rl --include='test_*.py' 'mark\.spark' tests)

test: export TWIN_ENGINE = python
test: setup
	$(PYTEST) -m 'not spark and not slow' -n auto --maxprocesses 4
	$(PYTEST) -m 'spark and not slow' -n 2 $(SPARK)

test-slow: setup
	$(PYTEST) -m 'slow and not spark' -n auto --maxprocesses 4
	$(PYTEST) -m 'slow and spark' -n 2 $(SPARK)

explore: setup
	$(PYTEST) -m 'not spark and not slow' -n auto --maxprocesses 4 --hypothesis-profile=explore \
		$$(grep -rl --include='test_*.py' '^from hypothesis' tests)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test test-slow

validity: setup
	$(BIN)/python -m benchmarks.validity

# Python finds the compiled modules beside their sources; a change of those is noticed and said.
compiled: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[compile]'
	STREAMTWIN_COMPILE=1 $(BIN)/python setup.py --quiet build_ext --inplace

clean:
	find twin -name '*.so' -delete -o -name '*.pyd' -delete -o -name compiled.json -delete
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
