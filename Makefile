# Two commands do everything on a fresh machine: `make demo` and `make test`. Each makes its own environment in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src zoo -type f -not -name '*.pyc')
PIP := PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet
UV := VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --constraints constraints.txt

# Python keeps what it has compiled, whatever the shell says: every worker and every command of the tests would do it again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: env test test-fast test-faults lint pytest browser docs demo clean

env: $(VENV)/.installed

$(VENV)/.dependencies: pyproject.toml constraints.txt
	@echo "making the environment in $(VENV) (a minute or two) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
# uv takes ten seconds where pip takes ninety; where it cannot reach the package index as it is set up for pip, pip does it.
	@$(PIP) uv && $(UV) ".[dev]" || $(PIP) ".[dev]"
	@touch $@

# The tests run against the installed wheel, so that a file missing from it is noticed.
$(VENV)/.installed: $(VENV)/.dependencies $(SOURCES) README.md LICENSE
	@$(PIP) --no-deps --force-reinstall .
	@touch $@

test: lint pytest

lint: env
	$(BIN)/ruff check src zoo experiments tests benchmarks examples
	$(BIN)/ruff format --check src zoo experiments tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

# Processes: compiling, which is most of the time, uses one core at a time. -rs prints why a test was skipped.
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder -rs
CHECKED := -n 2 --jaxtyping-packages=genan,genan_zoo,beartype.beartype
LONG := slow or browser or ray or docs

# First what is fast or at a robot's speed, with shapes and types checked in every call; then whole lines of work, as users run
# them. Both share one compile cache.
pytest: env browser
	@cache=$$(mktemp -d) && trap "rm -rf $$cache" EXIT && export GENAN_TEST_CACHE=$$cache && set -ex && \
	$(PYTEST) $(CHECKED) -m "not ($(LONG) or faults)" && $(PYTEST) -n 2 -m "$(LONG)" --durations=10

# All day long: no subprocess that imports JAX afresh, no browser, no Ray, no docs, nothing in real time.
test-fast: env
	$(PYTEST) $(CHECKED) -m "not ($(LONG) or realtime or faults)"

# Before a release, and every week: a hundred thousand mutated datagrams, kills, bad networks, forged artifacts, bombs and full
# disks. Ends with a table of what was tried and what held; under a quarter of an hour on two cores.
test-faults: env
	@cache=$$(mktemp -d) && trap "rm -rf $$cache" EXIT && export GENAN_TEST_CACHE=$$cache && set -ex && \
	$(PYTEST) -n 2 -m faults tests/faults

# The report and the viewer are tried in Chromium, from the system's packages where they may be installed; elsewhere those
# tests are skipped and say so.
browser:
	@command -v chromium chromium-browser google-chrome > /dev/null || test -n "$$CHROMIUM" || { \
	  test "$$(id -u)" = 0 && command -v apt-get > /dev/null && echo "installing chromium for the tests in a browser ..." && \
	  (apt-get install -y -qq --no-install-recommends chromium || (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium)) > /dev/null 2>&1; \
	} || echo "no chromium here: the tests in a browser are skipped"

docs: env
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site
	@echo "Open site/index.html; for the search: $(BIN)/python -m http.server -d site"

DEMO := demo

demo: $(DEMO)/data.h5 $(DEMO)/test.h5 $(DEMO)/actuators/actuator.json $(DEMO)/reacher/policy.json
	$(BIN)/genan inspect $(DEMO)/data.h5 --robot pamy2 --out $(DEMO)/inspect --overwrite
	$(BIN)/genan identify --robot virtual-pamy2 --out $(DEMO)/identify --overwrite
	$(BIN)/genan evaluate --actuators $(DEMO)/actuators --data $(DEMO)/test.h5 --true-torque --out $(DEMO)/evaluate --overwrite
	$(BIN)/genan play reacher --policy $(DEMO)/reacher --actuators $(DEMO)/actuators --video $(DEMO)/reacher.mp4 --overwrite
# Stepped, so that the result does not depend on how busy this computer is; then a few in real time, over the network.
	$(BIN)/genan transfer reacher --policy $(DEMO)/reacher --trials 20 --videos 0 --out $(DEMO)/transfer --overwrite
	$(BIN)/genan transfer reacher --policy $(DEMO)/reacher --serve --trials 3 --out $(DEMO)/transfer-served --overwrite
	$(BIN)/genan report $(DEMO) --out $(DEMO)/report.html --overwrite
	@echo
	@echo "Read first:  $(DEMO)/report.html  (opens in any browser, offline): what was recorded, learnt, trained and tried, and how far to trust it"
	@echo "See it move: $(DEMO)/reacher.mp4 in the simulator, $(DEMO)/transfer/robot-0/trial-0000.mp4 on the robot"
	@echo "Play with it, in a browser (drag the goal, push the arm):"
	@echo "             $(BIN)/genan view --live reacher --policy $(DEMO)/reacher --actuators $(DEMO)/actuators"
	@echo "             $(BIN)/genan view $(DEMO)/test.h5 --actuators $(DEMO)/actuators"
	@echo "Remove the folder $(DEMO)/ to record afresh."

# Interrupted? Run `make demo` again: recording goes on where it stopped.
$(DEMO)/data.h5: | env
	$(BIN)/genan collect --robot virtual-pamy2 --trajectories 200 --truth-for-evaluation-only --out $@

$(DEMO)/test.h5: | env
	$(BIN)/genan collect --robot virtual-pamy2 --trajectories 64 --seed 1 --truth-for-evaluation-only --out $@

# A small ensemble, for two cores; interrupted, it goes on too.
$(DEMO)/actuators/actuator.json: $(DEMO)/data.h5 | env
	$(BIN)/genan fit --data $(DEMO)/data.h5 --robot pamy2 --members 3 --hidden 128 128 --epochs 30 --out $(DEMO)/actuators

$(DEMO)/reacher/policy.json: $(DEMO)/actuators/actuator.json | env
	$(BIN)/genan train reacher --actuators $(DEMO)/actuators --num-envs 512 --ppo.num-minibatches 8 --steps 8000000 --out $(DEMO)/reacher

clean:
	rm -rf $(VENV) $(DEMO) site build dist .pytest_cache .ruff_cache .mypy_cache
