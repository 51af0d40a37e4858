# Every target sets up what it needs by itself: Python 3.10 to 3.13 and make are enough.
#
#   make demo      fly the shipped flight through the whole graph; look at out/demo/report.html
#   make test      ruff, mypy, import-linter, pytest
#   make soak      the long form: 10,000 frames, every node killed ten times, 1,000 malformed messages a topic (5 to 30 minutes)
#   make weights   train the shipped networks again on synthetic flights (hours)
#   make clean     remove what these commands made, the environment too
#
# Variables: PYTHON (interpreter), ARGS (more arguments for demo and weights), PYTEST_ARGS.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin

# With a ROS 2 distribution sourced its own Python, rclpy and cv_bridge serve; without, wheels do.
ROS := $(shell [ -n "$$ROS_DISTRO" ] && python3 -c 'import rclpy' 2>/dev/null && echo $$ROS_DISTRO || echo wheels)
ifeq ($(ROS),wheels)
  CANDIDATES := python3 python3.12 python3.11 python3.13 python3.10
  VENV_FLAGS :=
  ROS_REQUIREMENTS := -r requirements-ros.txt
else
  CANDIDATES := python3
  VENV_FLAGS := --system-site-packages
  ROS_REQUIREMENTS := -c constraints-ros.txt
endif
SUITABLE := import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in $(CANDIDATES); do $$p -c '$(SUITABLE)' 2>/dev/null && { echo $$p; break; }; done)

READY := $(VENV)/.ready-$(ROS)
READY_DEV := $(VENV)/.ready-dev-$(ROS)
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

.PHONY: help demo test soak lint weights clean

help:
	@sed -n '3,9s/^# \{0,3\}//p' Makefile

$(READY): requirements.txt requirements-ros.txt constraints.txt constraints-ros.txt setup.py
	@[ -n "$(PYTHON)" ] || { echo "make: no Python 3.10 to 3.13 with venv found; name one: make PYTHON=/path/to/python3" >&2; exit 2; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version), ROS 2: $(ROS). Once; torch alone is gigabytes, so give it some minutes."
	$(PYTHON) -m venv --clear $(VENV_FLAGS) $(VENV)
	$(PIP_INSTALL) -r requirements.txt $(ROS_REQUIREMENTS)
	$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(READY_DEV): $(READY) requirements-dev.txt requirements-fleet.txt
	$(PIP_INSTALL) -r requirements-dev.txt $(if $(filter wheels,$(ROS)),,-c constraints-ros.txt)
	@touch $@

demo: $(READY)
	$(BIN)/uav-privacy-sc demo $(ARGS)

lint: $(READY_DEV)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest $(PYTEST_ARGS)

soak: $(READY_DEV)
	UAV_SOAK_FRAMES=10000 UAV_SOAK_RESTARTS=10 UAV_FUZZ_MESSAGES=1000 \
	  $(BIN)/python -m pytest -s -o timeout=7200 $(PYTEST_ARGS) test/test_soak.py test/test_nodes_fuzz.py

weights: $(READY)
	$(BIN)/uav-privacy-sc train all $(ARGS)

clean:
	rm -rf $(VENV) out build install log *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
