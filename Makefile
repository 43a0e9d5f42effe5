# Two commands do everything on a fresh machine: `make demo` and `make test`. Each makes its own environment in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -type f -not -name '*.pyc')
PIP := PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet

.PHONY: env test lint pytest demo clean

env: $(VENV)/.installed

$(VENV)/.dependencies: pyproject.toml constraints.txt
	@echo "making the environment in $(VENV) (a minute or two) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) ".[dev]"
	@touch $@

# The tests run against the installed wheel, so that a file missing from it is noticed.
$(VENV)/.installed: $(VENV)/.dependencies $(SOURCES) README.md LICENSE
	@$(PIP) --no-deps --force-reinstall .
	@touch $@

test: lint pytest

lint: env
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two processes: compiling, which is most of the time, uses one core at a time.
pytest: env
	$(BIN)/python -m pytest -n 2 --dist loadfile --jaxtyping-packages=genan,beartype.beartype --durations=10

DEMO := demo

demo: $(DEMO)/data.h5 $(DEMO)/test.h5 $(DEMO)/actuators/actuator.json $(DEMO)/reacher/policy.json
	$(BIN)/genan inspect $(DEMO)/data.h5 --robot pamy2 --out $(DEMO)/inspect --overwrite
	$(BIN)/genan identify --robot virtual-pamy2 --out $(DEMO)/identify --overwrite
	$(BIN)/genan evaluate --actuators $(DEMO)/actuators --data $(DEMO)/test.h5 --true-torque --out $(DEMO)/evaluate --overwrite
	$(BIN)/genan play reacher --policy $(DEMO)/reacher --actuators $(DEMO)/actuators --video $(DEMO)/reacher.mp4 --overwrite
	$(BIN)/genan transfer reacher --policy $(DEMO)/reacher --serve --trials 20 --out $(DEMO)/transfer --overwrite
	@echo
	@echo "The demo is in $(DEMO)/:"
	@echo "  data.h5                          200 exploration trajectories of the virtual PAMY2"
	@echo "  inspect/trajectories.png         a few of them"
	@echo "  inspect/coverage.png             where they have been"
	@echo "  identify/frequency-response.png  the robot's linear dynamics, joint by joint"
	@echo "  identify/hysteresis.png          its hysteresis"
	@echo "  actuators/                       what the actuators do, learnt from positions and commands alone"
	@echo "  evaluate/error.png               how far it can be trusted, against baselines"
	@echo "  evaluate/rollouts.png            simulated motion over the recording: best, median, worst"
	@echo "  evaluate/held-control.png        does it come to rest when the control is held, as the robot does?"
	@echo "  reacher/                         a policy trained on these actuators, with its success rate"
	@echo "  reacher.mp4                      what it does in the simulator"
	@echo "  transfer/                        20 trials of it on the virtual robot, reached over UDP as a real one is"
	@echo "Remove the folder to record afresh."

# Interrupted? Run `make demo` again: recording goes on where it stopped.
$(DEMO)/data.h5: | env
	$(BIN)/genan collect --robot virtual-pamy2 --trajectories 200 --truth-for-evaluation-only --out $@

$(DEMO)/test.h5: | env
	$(BIN)/genan collect --robot virtual-pamy2 --trajectories 64 --seed 1 --truth-for-evaluation-only --out $@

# A small ensemble, for two cores; interrupted, it goes on too.
$(DEMO)/actuators/actuator.json: $(DEMO)/data.h5 | env
	$(BIN)/genan fit --data $(DEMO)/data.h5 --robot pamy2 --members 3 --hidden 128 128 --epochs 30 --control-noise 0.01 --out $(DEMO)/actuators

$(DEMO)/reacher/policy.json: $(DEMO)/actuators/actuator.json | env
	$(BIN)/genan train reacher --actuators $(DEMO)/actuators --envs 512 --ppo.mini-batches 8 --steps 8000000 --out $(DEMO)/reacher

clean:
	rm -rf $(VENV) $(DEMO) build dist .pytest_cache .ruff_cache .mypy_cache
