# Two commands on a fresh machine: `make demo` and `make test`. Plain `make` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dijob
# The distribution's Python where it is new enough: it is compiled with profiles, and a quarter faster than one that was
# compiled without (3.11 of Debian and of pyenv).
PYTHON := $(shell for p in /usr/bin/python3 python3; do \
	$$p -IS -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# Keyed by content: a clone with the same locked dependencies starts in a second.
VENV := $(CACHE)/venv-$(shell { cat requirements-dev.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)
PY := $(VENV)/bin/python
export PYTHONPATH := operator:tests/e2e:tests:images/dijob-runtime:bench
export MYPY_CACHE_DIR := $(CACHE)/mypy
# Each test starts operators, each worker imports the tests: compiled once.
export PYTHONDONTWRITEBYTECODE :=
# The tables of Unicode that Hypothesis makes once take five seconds.
export HYPOTHESIS_STORAGE_DIRECTORY := $(CACHE)/hypothesis

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# No prerequisite: the name says what is in it, and the file's time in a fresh clone is always newer.
# --no-deps: the lock names every package. With dependencies to resolve, pip takes an extra's package
# (coverage[toml]) in its newest release instead of the locked one, and then refuses it for its hash.
$(VENV)/ready:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer with ensurepip (Debian's package python3-venv) is here" >&2; exit 1; }
	@echo "==> Python packages into $(VENV) (~40 s)" >&2
	@rm -rf $(VENV) && mkdir -p $(CACHE) && $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -q --require-hashes --no-deps -r requirements-dev.txt
	@$(PY) -m pip check >&2
	@touch $@

# Packages for one purpose: in a folder beside those of the tests. $(1): what they are, $(2): how long it takes, $(3): their lock.
define APART
@echo "==> $(1) into $(@D) ($(2))" >&2
@rm -rf $(@D)
@$(PY) -m pip install -q --require-hashes --no-deps --target $(@D) -r $(3)
@touch $@
endef

.PHONY: venv
venv: $(VENV)/ready

.PHONY: venv-python
venv-python: $(VENV)/ready
	@echo $(PY)

.PHONY: tools
tools: ## install the Debian packages that the tests need (as root; otherwise it says which are missing)
	@missing=(); for p in bash dash busybox shellcheck make git chromium; do command -v $$p >/dev/null || missing+=($$p); done; \
	if [ $${#missing[@]} -eq 0 ]; then exit; fi; \
	if [ $$(id -u) -ne 0 ] || ! command -v apt-get >/dev/null; then \
	echo "==> missing, so what needs it is skipped (make tools installs it as root): $${missing[*]}"; exit; fi; \
	echo "==> apt-get install $${missing[*]} (~40 s)"; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null

# The generator of the docs site and its theme: a folder beside the packages of the tests.
SITE := $(CACHE)/site-$(shell { cat docs/site/requirements.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)
# What the theme's makers say on each run is about their next product.
MKDOCS := NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(SITE) $(PY) -m mkdocs

$(SITE)/ready: $(VENV)/ready
	$(call APART,mkdocs-material,~10 s,docs/site/requirements.txt)

.PHONY: site
site: $(SITE)/ready ## the docs site into OUT (default: site in the cache), each link checked (~3 s)
	@$(MKDOCS) build --strict --site-dir $(or $(OUT),$(CACHE)/site)

.PHONY: site-serve
site-serve: $(SITE)/ready ## the docs site at http://127.0.0.1:8000, made anew as its pages change
	@$(MKDOCS) serve --strict --dev-addr 127.0.0.1:8000

.PHONY: drawings
drawings: ## draw the pictures of how it works from their texts (graphviz)
	@command -v dot >/dev/null || { echo "graphviz is missing (Debian's package of that name)" >&2; exit 1; }
	@for text in docs/pictures/*.dot; do dot -Tsvg "$$text" -o "$${text%.dot}.svg"; done

.PHONY: recording
recording: venv ## docs/pictures/watch.svg: watch on the kubeconfig's cluster, while a pod is lost and comes back (~40 s)
	@$(PY) docs/site/recording.py

.PHONY: check
check: venv tools $(SITE)/ready ## ruff, mypy --strict, import-linter, generated files, links of the pages, shellcheck (~30 s, then ~6)
	@test ! -e operator/__init__.py || { echo "operator/__init__.py shadows the standard library's operator: remove it"; exit 1; }
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo
	$(PY) -m dijob.crd --check
	$(PY) -m dijob.cli.reference --check
	$(PY) docs/site/lookup.py --check
	@out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && echo "mkdocs build --strict" && \
	  { $(MKDOCS) build --strict --site-dir "$$out/site" >"$$out/said" 2>&1 || { cat "$$out/said"; exit 1; }; }
	$(if $(shell command -v shellcheck)$(DIJOB_SKIP_NOTHING),,@echo "==> skipped:" )shellcheck .ci/run images/*/rootfs.sh tests/gpu/*.sh

# What the three have in common is nothing but the two cores: the tests of the launcher and of the command line wait for
# processes most of the time, and a few modules, which go through many states or values, take as long as all other tests of the
# operator. One process for each of these two: with workers, each of them imports and collects all of it, and reports each test
# to the first, a fifth of the time.
MANY := $(addprefix tests/unit/test_,machine.py depth.py shell_bites.py lease_stories.py undone_changes.py)
COMMANDS := tests/unit/cli tests/unit/client

.PHONY: unit
unit: venv tools ## the core, the launcher in the pod, the model, the command line: no cluster (~40 s)
	@$(MAKE) --no-print-directory -j3 -Otarget unit-operator unit-many unit-processes

.PHONY: unit-operator unit-many unit-processes
unit-operator:
	$(PY) -m pytest tests/unit -q $(patsubst %,--ignore=%,$(MANY) $(COMMANDS))
	$(PY) -m pytest $(COMMANDS) -q -m timed

unit-many:
	$(PY) -m pytest $(MANY) -q

unit-processes:
	$(PY) -m pytest tests/pod tests/runtime $(if $(COVERED),,$(COMMANDS)) -q -n 4 --dist worksteal -m "not timed"

# The tracer doubles the time of the tests, which is why this is no part of `make unit`, but one of `make test`.
.PHONY: coverage
coverage: export COVERAGE_FILE := $(CACHE)/coverage
coverage: venv tools ## lines and branches that the unit tests reach, by package, with floors (~2 min)
	$(PY) -m pytest tests/unit -q -n 2 --dist worksteal -m "not timed" --cov --cov-report=
	@$(PY) tests/coverage_table.py

.PHONY: unit-covered
unit-covered: venv tools ## make unit with make coverage, each test once, as a stage of make test (~2 min)
	@$(MAKE) --no-print-directory -j2 -Otarget coverage unit-processes COVERED=1
	$(PY) -m pytest tests/unit -q -m timed

.PHONY: figures
figures: venv ## lines, ratio of tests, what is too large, folders of the core; BASE=COMMIT: beside those of a commit
	@$(PY) tests/figures.py $(BASE)

# A kernel and its client are for one notebook's test: a folder beside the packages of the others.
NOTEBOOK := $(CACHE)/notebook-$(shell { cat tests/e2e/notebook.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)

$(NOTEBOOK)/ready: $(VENV)/ready
	$(call APART,ipykernel and nbclient,~10 s,tests/e2e/notebook.txt)

.PHONY: notebook
notebook: $(NOTEBOOK)/ready ## execute examples/client.ipynb on the kubeconfig's cluster, and keep its outputs (OUT=: in another file)
	@PYTHONPATH=$(CURDIR)/operator:$(NOTEBOOK) $(PY) tests/e2e/notebook.py examples/client.ipynb $(or $(OUT),examples/client.ipynb)

.PHONY: lock
lock: ## write the locked dependencies anew from pyproject.toml (needs uv; known versions are kept)
	uv pip compile -q pyproject.toml --extra operator --generate-hashes --no-emit-index-url --no-header --python-version 3.11 -o requirements.txt
	uv pip compile -q pyproject.toml --extra operator --extra cli --group dev -c requirements.txt --generate-hashes --no-emit-index-url --no-header \
	  --python-version 3.11 -o requirements-dev.txt
	uv pip compile -q bench/requirements.in -c requirements-dev.txt --generate-hashes --no-emit-index-url --no-header \
	  --python-version 3.11 -o bench/requirements.txt
	uv pip compile -q images/audit.in -c requirements-dev.txt --generate-hashes --no-emit-index-url --no-header \
	  --python-version 3.11 -o images/audit.txt
	uv pip compile -q images/stacks/requirements.in --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
	  -o images/stacks/requirements.txt
	uv pip compile -q tests/e2e/notebook.in -c requirements-dev.txt --generate-hashes --no-emit-index-url --no-header \
	  --python-version 3.11 -o tests/e2e/notebook.txt
	uv pip compile -q docs/site/requirements.in -c requirements-dev.txt --generate-hashes --no-emit-index-url --no-header \
	  --python-version 3.11 -o docs/site/requirements.txt

.PHONY: crds
crds: venv ## write the CRD, the chart's copy, and the pages of fields, conditions, commands, metrics and values from the code
	$(PY) -m dijob.crd
	$(PY) -m dijob.cli.reference
	$(PY) docs/site/lookup.py

.PHONY: cluster-build
cluster-build: venv ## build the test cluster's programs into the cache (8 min once)
	@$(PY) -m cluster build

.PHONY: cluster-up
cluster-up: venv ## start the test cluster with the images in it (kind where Docker answers, else the embedded one)
	@archives=$$($(PY) images/build.py light ditask launcher stacks operator); $(PY) -m cluster up --image $$archives

.PHONY: cluster-down
cluster-down: venv ## remove the test cluster and every trace of it
	@$(PY) -m cluster down

.PHONY: cluster-env
cluster-env: venv ## print shell lines that set KUBECONFIG and PATH: eval "$$(make -s cluster-env)"
	@$(PY) -m cluster env

.PHONY: images
images: venv ## build all images into the cache (6 min once)
	@$(PY) images/build.py

.PHONY: images-load
images-load: venv ## bring the images into nodes: KIND=NAME, NODES="HOST HOST" (ssh), ENTER="COMMAND", else the test cluster (IMAGES=, FILE=, CTR=)
	@if [ -z "$(KIND)$(NODES)$(ENTER)" ]; then \
	  archives=$(if $(FILE),"$(FILE)",$$($(PY) images/build.py $(or $(IMAGES),operator launcher ditask))); $(PY) -m cluster load $$archives; \
	else $(if $(FILE),,$(PY) images/build.py $(or $(IMAGES),operator launcher ditask) >/dev/null;) \
	  $(PY) images/load.py $(KIND:%=--kind %) $(NODES:%=--node %) $(if $(ENTER),--enter "$(ENTER)") $(if $(CTR),--ctr "$(CTR)") \
	    $(FILE:%=--file %) $(IMAGES); fi

.PHONY: release
release: cluster-build images ## all that VERSION is, ready to be pushed: OCI archives, chart, wheels, bills, notes, sums (~3 min; OUT=)
	@test -n "$(VERSION)" || { echo "which version? make release VERSION=0.2.0" >&2; exit 2; }
	@PATH="$$($(PY) -m cluster build):$$PATH" $(PY) images/bundle.py "$(VERSION)" $(OUT:%=--out %)

.PHONY: sbom
sbom: venv ## write what is in each image into the cache, as CycloneDX, and print the paths (~15 s)
	@$(PY) images/sbom.py

# Nothing else needs these packages: a folder beside those of the tests, as for the pictures below.
AUDIT := $(CACHE)/audit-$(shell { cat images/audit.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)

$(AUDIT)/ready: $(VENV)/ready
	$(call APART,pip-audit and CycloneDX's library,~20 s,images/audit.txt)

.PHONY: bills
bills: $(AUDIT)/ready ## check what make sbom writes against CycloneDX's schema (~20 s)
	@PYTHONPATH=$(AUDIT) $(PY) images/check_bills.py $$($(PY) images/sbom.py)

# --strict: a package about which PyPI says nothing is a failure, not a warning.
.PHONY: audit
audit: bills ## ask PyPI for known vulnerabilities of the locked packages (needs PyPI's JSON API); the bills too
	@PYTHONPATH=$(AUDIT) $(PY) -m pip_audit --strict --disable-pip --require-hashes -r requirements-dev.txt -r images/stacks/requirements.txt -r tests/e2e/notebook.txt -r docs/site/requirements.txt --vulnerability-service pypi

# A file goes to one of three workers as a whole: the long ones first, or one worker is idle in the end; what computes (real
# DI-engine) in turn with what waits, or three that compute take twice as long. Each file by its name: pytest leaves out
# a file that a folder after it has too, and then the order is that of the folder. Three on two cores: with two, a
# quarter of the time of e2e and a third of apiserver's went by with nothing to do.
FIRST := $(patsubst %,tests/e2e/test_%.py,tasks_dqn node_loss first_steps queues doctor operators_node_loss dqn_losses healing redis \
	from_slurm server network_policy failures runtimes first_events elastic launcher renewals policies topology mesh local cli stacks ui gate any_image examples room torchrun \
	contract \
	redis_losses)
E2E_FILES := $(FIRST) $(filter-out $(FIRST),$(sort $(wildcard tests/e2e/test_*.py)))

.PHONY: apiserver
apiserver: cluster-build images ## bad input, kill -9 at each write, faults, 150 jobs, the chart, the test cluster itself (~8 min)
	$(PY) -m pytest tests/chart tests/selftest tests/faults tests/apiserver -m "not long" -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: hostile
hostile: cluster-build ## a tenant sends 1,000 objects of any kind, each time others: what others notice (~6 min)
	DIJOB_HOSTILE_OBJECTS=1000 DIJOB_HOSTILE_STARTS=10 DIJOB_HOSTILE_REST=65 \
	DIJOB_HOSTILE_SEED=$${SEED:-$$RANDOM} $(PY) -m pytest -s tests/faults/test_hostile.py

.PHONY: scale
scale: cluster-build ## a restart among 1,000 jobs with 4,000 pods, with its figures (~2.5 min)
	DIJOB_SCALE_JOBS=1000 $(PY) -m pytest -s tests/faults/test_scale.py

# libfaketime makes the operator's clock wrong (Debian's package; rows T15 are out of bound without it).
.PHONY: faults
faults: cluster-build ## what networks, apiservers, nodes and clocks can do to the operator, as a table (SEED=, ROWS=, JSON=FILE)
	@if [ $$(id -u) -eq 0 ] && command -v apt-get >/dev/null && ! dpkg -s libfaketime >/dev/null 2>&1; then \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libfaketime >/dev/null; fi
	@$(PY) -m faultbench $(ROWS) $(SEED:%=--seed %) $(if $(or $(JSON),$(ROWS)),$(JSON:%=--json %),--json bench/results/faults.json)

.PHONY: soak
soak: cluster-build ## random jobs and faults for half an hour: what grows, what leaks (MINUTES=, SEED=, JSON=FILE)
	@$(PY) -m faultbench.soak --minutes $(or $(MINUTES),30) $(SEED:%=--seed %) --json $(or $(JSON),bench/results/soak.json)

.PHONY: faults-page
faults-page: venv ## the tables of docs/reliability.md from the figures in bench/results
	@$(PY) -m faultbench.page

.PHONY: bench
bench: cluster-build ## how long 20x4, 100x4 and 5x200 pods take to start, beside bare clients and JobSet, three times (~20 min; SHAPES=, RUNS=, JSON=FILE, JOBSET_BIN=)
	@$(PY) bench/start.py $(SHAPES) --runs $(or $(RUNS),3) $(JSON:%=--json %)

.PHONY: bench-full
bench-full: cluster-build ## up to 1,000 jobs, and 1,500 ranks in one; growth, losses, rest and restarts among them (~20 min; SHAPES=, JSON=FILE)
	@$(PY) bench/full.py $(SHAPES) $(JSON:%=--json %)

# matplotlib is for these pictures alone: a folder beside the packages of the tests.
PLOTS := $(CACHE)/plots-$(shell { cat bench/requirements.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)

$(PLOTS)/ready: $(VENV)/ready
	$(call APART,matplotlib,~20 s,bench/requirements.txt)

.PHONY: bench-page
bench-page: $(PLOTS)/ready ## tables and pictures of docs/performance.md from the figures in bench/results
	@$(PY) bench/page.py
	@PYTHONPATH=$(PYTHONPATH):$(PLOTS) $(PY) bench/plots.py

.PHONY: bench-nodes
bench-nodes: cluster-build images ## what a start and a loss take on real nodes, step by step (~5 min; RUNS=)
	@$(PY) bench/nodes.py $(if $(RUNS),--runs $(RUNS))

.PHONY: profile
profile: cluster-build ## a flame graph of the operator while 100 jobs of 4 start (~1 min; OUT=; PYSPY= names py-spy's program)
	@$(PY) bench/flames.py $(or $(OUT),docs/pictures/operator.svg)

.PHONY: e2e
e2e: tools cluster-build images $(NOTEBOOK)/ready ## real pods on real nodes (~20 min)
	$(PY) -m pytest tests/field $(E2E_FILES) -m "not alone and not long" -n 3 --dist loadfile --no-loadscope-reorder
	$(PY) -m pytest tests/e2e -m "alone and not long"

.PHONY: field
field: cluster-build images ## small inputs of users that once went wrong, a line for each (~4 min; CASE=c41: one of them)
	@$(PY) -m pytest tests/field -q $(if $(CASE),-k $(CASE))

.PHONY: first-events
first-events: cluster-build images ## who hears what a process says first: 20 runs of each kind, beside the same without the hold (~35 min)
	$(PY) -m pytest -s tests/e2e/test_first_events.py -m long

.PHONY: long
long: cluster-build images ## minutes of what shorter tests show too: DI-engine's own message queues (~9 min)
	$(PY) -m pytest tests/e2e -m long --ignore=tests/e2e/test_first_events.py

.PHONY: chaos
chaos: cluster-build images ## faults of chance on real pods, several at once, over five jobs (~15 min; SEED=, MINUTES=, REPLAY=FILE, JSON=FILE)
	@$(PY) -m chaos $(SEED:%=--seed %) $(MINUTES:%=--minutes %) $(REPLAY:%=--replay %) $(JSON:%=--json %)

.PHONY: chaos-page
chaos-page: venv ## the table of docs/reliability.md about real pods, from the figures in bench/results/chaos.json
	@$(PY) -m chaos.page

.PHONY: arm64
arm64: venv ## the images of launcher and operator for arm64, and their programs under an emulator (~4 min; no part of make test)
	@command -v qemu-aarch64-static >/dev/null || { \
	  if [ $$(id -u) -eq 0 ] && command -v apt-get >/dev/null; then echo "==> apt-get install qemu-user-static (~20 s)"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-user-static >/dev/null; fi; }
	$(PY) -m pytest tests/arm64

.PHONY: matrix
matrix: venv ## the tests on the oldest and the newest Kubernetes, on IPv6 and dual stack (ROWS="oldest ipv6", COLD=1; no part of make test)
	@$(PY) tests/matrix.py $(ROWS) $(if $(COLD),--cold)

.PHONY: stress
stress: venv ## make unit 20 times beside 4 busy processes (UNIT=, LOAD=), make e2e 3 times (E2E=): no test of luck (~3 h)
	@$(PY) tests/stress.py

# schemathesis is for this alone.
FUZZ := $(CACHE)/fuzz-$(shell { cat tests/chart/schemathesis.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)

$(FUZZ)/ready:
	@echo "==> schemathesis into $(FUZZ) (~20 s)" >&2
	@rm -rf $(FUZZ) && $(PYTHON) -m venv $(FUZZ)
	@$(FUZZ)/bin/python -m pip install -q --require-hashes --no-deps -r tests/chart/schemathesis.txt
	@touch $@

.PHONY: fuzz
fuzz: cluster-build $(FUZZ)/ready ## schemathesis asks the HTTP server all that its description allows, and what it does not (~2 min)
	DIJOB_SCHEMATHESIS=$(FUZZ)/bin/schemathesis $(PY) -m pytest -s tests/chart/test_chart_server.py -m long -k schemathesis

.PHONY: screenshots
screenshots: tools cluster-build images ## the pictures of docs/tools.md, of real pods in a real browser (~8 min)
	@$(PY) tests/e2e/pictures.py

.PHONY: golden
golden: cluster-build ## keep what the newest release writes, for all later ones to understand (~3 min; tests/golden)
	@$(PY) -m golden

.PHONY: demo
demo: venv ## the main job: a real DQN trains on four pods (first time ~16 min, then ~4)
	@$(PY) tests/e2e/demo.py

.PHONY: test
test: ## everything that CI runs
	@begin=$$SECONDS; for stage in check unit-covered cluster-build images apiserver e2e; do \
	  echo "==> [$$((SECONDS - begin)) s] make $$stage"; $(MAKE) --no-print-directory $$stage; done; \
	echo "==> all passed in $$((SECONDS - begin)) s"
