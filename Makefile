# make demo   the whole loop, small        make test    the tests, but for slow ones (make test-slow)
# make serve  scenarios in the browser
# make check  lint, types, all tests       make setup   the environment in .venv alone
# make explore   properties with new examples each time (pytest's --hypothesis-seed brings one back)
# make validity   docs/validity.md with its figures: hours of simulation, resumed where they were interrupted
# Another interpreter: make setup PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo serve test test-slow test-all plain spark explore check validity clean

# The simulator is compiled once for its sources; afterwards this takes no time.
setup: $(STAMP)
	@$(BIN)/python -m twin.machine > /dev/null

# Only a change of what is to be installed makes it anew. Libraries and the simulator are compiled at the same time.
$(STAMP): pyproject.toml constraints.txt install.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "streamtwin needs Python 3.11 or newer, and '$(PYTHON)' is" \
			"'$$($(PYTHON) --version 2>&1)'; name another: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { \
		echo "'$(PYTHON)' has no venv module; install it (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python install.py
	@$(BIN)/python -m compileall -q $(VENV)/lib > /dev/null & $(BIN)/python -m twin.machine > /dev/null; wait; touch $@

demo: setup
	$(BIN)/twin demo

serve: setup
	$(BIN)/twin serve

# Spark forks a JVM launcher, which JAX's threads do not survive for sure: a process of its own, which reads no other
# tests; one, whose JVM warms up once, ends before the others do. Files, whose tests share what they set up, go to a
# process a core, in the order of tests/conftest.py; test-all sets up once for quick and slow ones. Both kinds at once:
# make -j2 --output-sync test
PYTEST := $(BIN)/python -m pytest -q --dist loadfile --no-loadscope-reorder
PLAIN := $(PYTEST) -n auto --maxprocesses 4
SPARK = $(PYTEST) -n 1 $$(grep -rl --include='test_*.py' 'mark\.spark' tests)

test test-slow test-all: plain spark
test: AND := and not slow
test-slow: AND := and slow

plain: setup
	$(PLAIN) -m 'not spark $(AND)'

spark: setup
	$(SPARK) -m 'spark $(AND)'

explore: setup
	$(PLAIN) -m 'not spark and not slow' --hypothesis-profile=explore \
		$$(grep -rl --include='test_*.py' '^from hypothesis' tests)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test-all

validity: setup
	$(BIN)/python -m benchmarks.validity

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
