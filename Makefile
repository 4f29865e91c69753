# Two commands on a fresh machine: `make demo` and `make test`. Plain `make` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dijob
# Keyed by content: a clone with the same locked dependencies starts in a second.
VENV := $(CACHE)/venv-$(shell cat requirements-dev.txt | sha256sum | cut -c1-12)
PY := $(VENV)/bin/python
export PYTHONPATH := operator:tests/e2e:tests
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/ready: requirements-dev.txt
	@echo "==> Python packages into $(VENV) (~40 s)"
	@rm -rf $(VENV) && mkdir -p $(CACHE) && python3 -m venv $(VENV)
	@$(PY) -m pip install -q --require-hashes -r requirements-dev.txt
	@touch $@

.PHONY: venv
venv: $(VENV)/ready

.PHONY: venv-python
venv-python: $(VENV)/ready
	@echo $(PY)
