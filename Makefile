# Everything a newcomer needs: `make up` and `make test`. `make` alone lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# The parts of the setup wait for the network by turns; each tells what it does in one line.
MAKEFLAGS += --jobs=4
UI_SOURCES := $(shell find ui/src ui/index.html ui/package.json ui/vite.config.ts examples -type f 2>/dev/null)

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .cache/system-tests programs ## install what is missing (packages of the system only as root; otherwise they are named)

# What `up` needs. System packages that only tests need are no condition of it.
programs: .cache/system-up .venv/ready .venv-lab/ready ui/dist/index.html

up: programs ## the platform and the simulated datacenter on this machine; Ctrl-C stops the platform
	@exec $(BIN)/trilithon up --lab

lint: .venv/ready ## style, types and the layers of the design
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

fmt: .venv/ready ## put the code in order
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

test: setup ## everything: lint and all tiers of tests, each within its time budget
	@.ci/tiers

bench: setup ## measure speed against the budgets of docs/benchmarks.md; prints figures, asserts nothing
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.perf

crash-real: setup ## the worker dies at every point of a kubeadm create and delete on real nodes (root, Go, 15 minutes)
	TRILITHON_CRASH_REAL=all $(BIN)/pytest -q -s tests/real/test_crash_points.py

.cache/system-tests: | .cache/system-up

.cache/system-%: .ci/system-packages
	@PYTHON=$(PYTHON) .ci/system-packages $* && mkdir -p .cache && touch $@

.venv/ready: requirements.lock pyproject.toml | .cache/system-up
	@echo "setting up Python packages in .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv-lab/ready: lab/pve/requirements.lock | .cache/system-up
	@echo "setting up the simulated Proxmox VE in .venv-lab"
	@test -x .venv-lab/bin/python || $(PYTHON) -m venv .venv-lab
	@.venv-lab/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r lab/pve/requirements.lock
	@touch $@

ui/node_modules/.ready: ui/package-lock.json | .cache/system-up
	@echo "setting up the page's packages in ui/node_modules"
	@cd ui && npm ci --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

ui/dist/index.html: ui/node_modules/.ready $(UI_SOURCES)
	@cd ui && npm run --silent build

.PHONY: help setup programs up lint fmt test bench crash-real
