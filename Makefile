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
BUILT := build/engine

.PHONY: setup demo test test-plain test-spark test-slow test-slow-plain test-slow-spark explore check validity \
	compiled engine clean

setup: $(STAMP)

# Only a change of what is to be installed makes it anew.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "streamtwin needs Python 3.11 or newer, and '$(PYTHON)' is" \
			"'$$($(PYTHON) --version 2>&1)'; name another: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { \
		echo "'$(PYTHON)' has no venv module; install it (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,compile]'
	@touch $@

demo: setup
	$(BIN)/twin demo

# Spark forks a JVM launcher, which JAX's threads do not survive for sure: processes of its own, which read no other
# tests. All are shared out to a process a core, file by file, since the tests of a file share what they set up. Guards
# are provoked inside the engine, which only plain Python allows. Both kinds at once: make -j2 --output-sync test
PYTEST := $(BIN)/python -m pytest -q --dist loadfile
PLAIN := $(PYTEST) -n auto --maxprocesses 4
SPARK = $(PYTEST) -n 2 $$(grep -rl --include='test_*.py' 'mark\.spark' tests)

test: test-plain test-spark

test-plain test-spark: export TWIN_ENGINE = python

test-plain: setup
	$(PLAIN) -m 'not spark and not slow'

test-spark: setup
	$(SPARK) -m 'spark and not slow'

test-slow: test-slow-plain test-slow-spark

test-slow-plain: setup
	$(PLAIN) -m 'slow and not spark'

test-slow-spark: setup
	$(SPARK) -m 'slow and spark'

explore: setup
	$(PLAIN) -m 'not spark and not slow' --hypothesis-profile=explore \
		$$(grep -rl --include='test_*.py' '^from hypothesis' tests)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test test-slow

validity: setup
	$(BIN)/python -m benchmarks.validity

# Python finds the compiled modules beside their sources; a change of those is noticed and said. Other than cp, tar puts
# new files in the place of old ones, which a process may be running.
compiled: engine
	tar -C $(BUILT) -cf - . | tar -xf -

# In a folder of its own, where nobody finds it yet: tests may run meanwhile.
engine: $(BUILT)/twin/engine/compiled.json

$(BUILT)/twin/engine/compiled.json: setup.py $(STAMP) $(shell find twin -name '*.py')
	STREAMTWIN_COMPILE=1 $(BIN)/python setup.py --quiet build_ext --build-lib $(BUILT)

clean:
	find twin -name '*.so' -delete -o -name '*.pyd' -delete -o -name compiled.json -delete
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
