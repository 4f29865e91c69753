# Two commands work on a fresh machine: `make demo` and `make test`. `make` without a target lists all targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dijob
# Prefer the distribution's Python if it is new enough. It is compiled with profile-guided optimization, which makes it a quarter faster
# than a build without it (measured: Debian's 3.11 and pyenv's).
PYTHON := $(shell for p in /usr/bin/python3 python3; do \
	$$p -IS -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# The environment's name contains a hash of the lock file, so that all clones with the same locked dependencies share one environment.
VENV := $(CACHE)/venv-$(shell { cat requirements-dev.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)
PY := $(VENV)/bin/python
export PYTHONPATH := operator:testing:tests/e2e:tests:images/dijob-runtime:bench
# All clones share mypy's cache. After several runs had used it at the same time, mypy reported an error that did not exist, until the
# cache was deleted. So only one run at a time uses it. macOS has no flock.
export MYPY_CACHE_DIR := $(CACHE)/mypy-one-at-a-time
ALONE := $(if $(shell command -v flock),flock $(CACHE)/mypy.lock)
# Write .pyc files. Without them, every operator that a test starts and every pytest worker would compile the modules again.
export PYTHONDONTWRITEBYTECODE :=
# Hypothesis generates its Unicode tables once, which takes five seconds. Keep them in the cache.
export HYPOTHESIS_STORAGE_DIRECTORY := $(CACHE)/hypothesis

.PHONY: help
help: ## list all targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{gsub(/\$$\$$/, "$$"); printf "  make %-14s %s\n", $$1, $$2}'

# This target has no prerequisite: the hash in its name identifies the content, and the lock file of a fresh clone would always be newer.
# --no-deps: the lock file names every package. If pip resolves dependencies, it selects the newest release of an extra's package
# (coverage[toml]) instead of the locked one, and then rejects it because of its hash.
$(VENV)/ready:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with ensurepip was not found (on Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "==> Python packages into $(VENV) (~40 s)" >&2
	@rm -rf $(VENV) && mkdir -p $(CACHE) && $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -q --require-hashes --no-deps -r requirements-dev.txt
	@$(PY) -m pip check >&2
	@touch $@

# Install packages that only one target needs into a separate folder. $(1): their description, $(2): the time it takes, $(3): their lock
# file.
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
tools: ## install the Debian packages that the tests need (as root; other users get a list of the missing ones)
	@missing=(); for p in bash dash busybox shellcheck make git chromium; do command -v $$p >/dev/null || missing+=($$p); done; \
	if [ $${#missing[@]} -eq 0 ]; then exit; fi; \
	if [ $$(id -u) -ne 0 ] || ! command -v apt-get >/dev/null; then \
	echo "==> missing programs, tests that need them are skipped (make tools, as root, installs them): $${missing[*]}"; exit; fi; \
	echo "==> apt-get install $${missing[*]} (~40 s)"; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null

# The generator of the docs site and its theme.
SITE := $(CACHE)/site-$(shell { cat docs/site/requirements.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)
# Suppress the theme's message on every run, which advertises its successor.
MKDOCS := NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(SITE) $(PY) -m mkdocs

$(SITE)/ready: $(VENV)/ready
	$(call APART,mkdocs-material,~10 s,docs/site/requirements.txt)

.PHONY: site
site: $(SITE)/ready ## build the docs site and check its links (~3 s; OUT=DIR, by default a folder in the cache)
	@$(MKDOCS) build --strict --site-dir $(or $(OUT),$(CACHE)/site)

.PHONY: site-serve
site-serve: $(SITE)/ready ## serve the docs site at http://127.0.0.1:8000 and rebuild it when pages change
	@$(MKDOCS) serve --strict --dev-addr 127.0.0.1:8000

.PHONY: drawings
drawings: ## render the diagrams in docs/pictures from their .dot files (needs graphviz)
	@command -v dot >/dev/null || { echo "dot was not found (on Debian: apt-get install graphviz)" >&2; exit 1; }
	@for text in docs/pictures/*.dot; do dot -Tsvg "$$text" -o "$${text%.dot}.svg"; done

.PHONY: recording
recording: venv ## record docs/pictures/watch.svg: kubectl dijob watch during the loss of a pod, on the kubeconfig's cluster (~40 s)
	@$(PY) docs/site/recording.py

.PHONY: check
check: venv tools $(SITE)/ready ## ruff, mypy --strict, import-linter, generated files, links in the docs, Vale, shellcheck (~70 s, then ~8 s)
	@test ! -e operator/__init__.py || { echo "operator/__init__.py shadows the standard library's operator: remove it"; exit 1; }
	@$(MAKE) --no-print-directory -j2 -Otarget check-code check-docs

.PHONY: check-code check-docs
check-code:
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(ALONE) $(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo

check-docs:
	$(PY) -m dijob.crd --check
	$(PY) docs/site/commands.py --check
	$(PY) docs/site/lookup.py --check
	@out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && echo "mkdocs build --strict" && \
	  { $(MKDOCS) build --strict --site-dir "$$out/site" >"$$out/log" 2>&1 || { cat "$$out/log"; exit 1; }; }
	$(PY) -m prose $(if $(DIJOB_SKIP_NOTHING),,--optional)
	$(if $(shell command -v shellcheck)$(DIJOB_SKIP_NOTHING),,@echo "==> skipped:" )shellcheck .ci/run images/*/rootfs.sh tests/gpu/*.sh

.PHONY: prose
prose: venv ## check docs, comments and messages with Vale and the rules in .vale (~2 s; LEVEL=suggestion shows more)
	@$(PY) -m prose $(LEVEL:%=--level %)

# The unit tests run as independent groups that share two cores. `make unit` is for each change, so it leaves out two groups that take
# longer than all others: modules that go through many states or values (MANY), and the tests that start the launcher or a program as a
# process. `make unit-all` and `make test` run all of them. The tests of the command line mostly wait, so they run with two workers. The
# others run in one process each: with pytest workers, every worker imports and collects all tests and reports each result to the
# controller, which takes a fifth of the time.
MANY := $(patsubst %,tests/unit/%.py,api/test_depth controller/test_machine controller/test_seeded_bugs controller/leader/test_lease_stories \
	controller/write/test_undone_changes)
CORE := $(addprefix tests/unit/,core api crd reasons)
COMMANDS := tests/unit/cli tests/unit/client tests/unit/extras

.PHONY: unit
unit: venv tools ## unit tests for each change: core, controller, server, command line; needs no cluster (~35 s)
	@$(MAKE) --no-print-directory -j3 -Otarget unit-core unit-operator unit-commands

.PHONY: unit-all
unit-all: venv tools ## all unit tests: make unit, the launcher and the hook as processes, the state machine (~75 s)
	@$(MAKE) --no-print-directory -j3 -Otarget unit-core unit-operator unit-commands unit-many unit-processes
	$(PY) -m pytest tests/unit -q -m timed

.PHONY: unit-core unit-operator unit-commands unit-many unit-processes
unit-core:
	$(PY) -m pytest $(CORE) -q -m "not timed" $(patsubst %,--ignore=%,$(MANY))

unit-operator:
	$(PY) -m pytest tests/unit -q -m "not timed" $(patsubst %,--ignore=%,$(CORE) $(MANY) $(COMMANDS))

unit-commands:
	$(PY) -m pytest $(COMMANDS) -q -n 2 --dist worksteal -m "not timed"

unit-many:
	$(PY) -m pytest $(MANY) -q

unit-processes:
	$(PY) -m pytest tests/pod tests/runtime -q -n 4 --dist worksteal -m "not timed"

# Tracing doubles the duration of the tests. Therefore coverage is part of `make test`, but not of `make unit`.
.PHONY: coverage
coverage: export COVERAGE_FILE := $(CACHE)/coverage
coverage: venv tools ## line and branch coverage of the unit tests by package; fails below a minimum (~2 min)
	$(PY) -m pytest tests/unit -q -n 2 --dist worksteal -m "not timed" --cov --cov-report=
	@$(PY) tests/coverage_table.py

.PHONY: unit-covered
unit-covered: venv tools ## make unit-all and make coverage in one run, as a stage of make test (~2 min)
	@$(MAKE) --no-print-directory -j2 -Otarget coverage unit-processes
	$(PY) -m pytest tests/unit -q -m timed

.PHONY: figures
figures: venv ## code metrics and their goals: names, comments, sizes, pages (BASE=COMMIT compares with a commit)
	@$(PY) tests/figures.py $(BASE)

# A Jupyter kernel and its client, which only the notebook's test needs.
NOTEBOOK := $(CACHE)/notebook-$(shell { cat tests/e2e/notebook.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)

$(NOTEBOOK)/ready: $(VENV)/ready
	$(call APART,ipykernel and nbclient,~10 s,tests/e2e/notebook.txt)

.PHONY: notebook
notebook: $(NOTEBOOK)/ready ## execute examples/client.ipynb on the kubeconfig's cluster and store its outputs (OUT=FILE: in another file)
	@PYTHONPATH=$(CURDIR)/operator:$(NOTEBOOK) $(PY) tests/e2e/notebook.py examples/client.ipynb $(or $(OUT),examples/client.ipynb)

.PHONY: lock
lock: ## update the lock files from pyproject.toml and the .in files (needs uv; keeps locked versions)
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
crds: venv ## generate the CRD, the chart's copy of it, and the reference pages of docs/ from the code
	$(PY) -m dijob.crd
	$(PY) docs/site/commands.py
	$(PY) docs/site/lookup.py

.PHONY: cluster-build
cluster-build: venv ## build the binaries of the test cluster into the cache (8 min the first time)
	@$(PY) -m cluster build --kwok

.PHONY: programs
programs: venv
	@$(PY) -m cluster build >/dev/null

.PHONY: cluster-up
cluster-up: venv ## start the test cluster and load the images into it (kind if Docker is available, else the embedded cluster)
	@$(MAKE) --no-print-directory -j2 programs images
	@archives=$$($(PY) images/build.py light ditask launcher stacks operator); $(PY) -m cluster up --image $$archives

.PHONY: cluster-down
cluster-down: venv ## remove the test cluster completely
	@$(PY) -m cluster down

.PHONY: cluster-env
cluster-env: venv ## print shell commands that set KUBECONFIG and PATH: eval "$$(make -s cluster-env)"
	@$(PY) -m cluster env

.PHONY: images
images: venv ## build all images into the cache (6 min the first time)
	@$(PY) images/build.py

.PHONY: images-load
images-load: venv ## load the images into nodes: KIND=NAME, NODES="HOST HOST" (ssh), ENTER="COMMAND", by default the test cluster (IMAGES=, FILE=, CTR=)
	@if [ -z "$(KIND)$(NODES)$(ENTER)" ]; then \
	  archives=$(if $(FILE),"$(FILE)",$$($(PY) images/build.py $(or $(IMAGES),operator launcher ditask))); $(PY) -m cluster load $$archives; \
	else $(if $(FILE),,$(PY) images/build.py $(or $(IMAGES),operator launcher ditask) >/dev/null;) \
	  $(PY) images/load.py $(KIND:%=--kind %) $(NODES:%=--node %) $(if $(ENTER),--enter "$(ENTER)") $(if $(CTR),--ctr "$(CTR)") \
	    $(FILE:%=--file %) $(IMAGES); fi

.PHONY: version
version: venv ## set the version in all files that contain it, and put it above the unreleased changes in CHANGELOG.md (VERSION=)
	@test -n "$(VERSION)" || { echo "VERSION is not set: make version VERSION=0.2.0" >&2; exit 2; }
	@$(PY) images/version.py "$(VERSION)"

.PHONY: release
release: cluster-build images ## all artifacts of VERSION, ready to push: OCI archives, chart, wheels, SBOMs, notes, checksums (~3 min; OUT=DIR)
	@test -n "$(VERSION)" || { echo "VERSION is not set: make release VERSION=0.2.0" >&2; exit 2; }
	@PATH="$$($(PY) -m cluster build):$$PATH" $(PY) images/bundle.py "$(VERSION)" $(OUT:%=--out %)

.PHONY: sbom
sbom: venv ## write a CycloneDX SBOM of each image into the cache and print the paths (~15 s)
	@$(PY) images/sbom.py

# Packages that only the SBOM checks need.
AUDIT := $(CACHE)/audit-$(shell { cat images/audit.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)

$(AUDIT)/ready: $(VENV)/ready
	$(call APART,pip-audit and CycloneDX's library,~20 s,images/audit.txt)

.PHONY: bills
bills: $(AUDIT)/ready ## validate the SBOMs of make sbom against CycloneDX's schema (~20 s)
	@PYTHONPATH=$(AUDIT) $(PY) images/check_bills.py $$($(PY) images/sbom.py)

# --strict: fail instead of only warning if PyPI has no vulnerability data about a package.
.PHONY: audit
audit: bills ## query PyPI for known vulnerabilities of the locked packages, and run make bills (needs PyPI's JSON API)
	@PYTHONPATH=$(AUDIT) $(PY) -m pip_audit --strict --disable-pip --require-hashes -r requirements-dev.txt -r images/stacks/requirements.txt -r tests/e2e/notebook.txt -r docs/site/requirements.txt --vulnerability-service pypi

# The e2e tests run with three workers, and each test file runs on one worker. The long files come first, or one worker would be idle at
# the end. Files that compute (real DI-engine) alternate with files that wait, because three computing files at once take twice as
# long. Every file is listed by name: pytest drops a file argument if a later folder argument contains it, and then uses the folder's
# order. There are three workers on two cores. With two workers, the cores were idle during a quarter of the e2e tests and a third of the
# apiserver tests.
FIRST := $(patsubst %,tests/e2e/test_%.py,tasks_dqn first_steps learners_collectors queues doctor operators_node_loss healing redis \
	from_slurm server network_policy failures runtimes first_events elastic launcher renewals policies topology mesh local cli stacks ui gate any_image examples room torchrun \
	contract \
	redis_losses)
E2E_FILES := $(FIRST) $(filter-out $(FIRST),$(sort $(wildcard tests/e2e/test_*.py)))

.PHONY: apiserver
apiserver: cluster-build images ## tests with a real API server: invalid input, kill -9 before each write, faults, 150 jobs, the chart, the test cluster (~12 min)
	$(PY) -m pytest tests/chart tests/selftest tests/faults tests/apiserver -m "not long" -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: hostile
hostile: cluster-build ## measure how 1,000 random objects of one tenant affect other tenants (~6 min; SEED=)
	DIJOB_HOSTILE_OBJECTS=1000 DIJOB_HOSTILE_STARTS=10 DIJOB_HOSTILE_REST=65 \
	DIJOB_HOSTILE_SEED=$${SEED:-$$RANDOM} $(PY) -m pytest -s tests/faults/test_hostile.py

.PHONY: scale
scale: cluster-build ## restart the operator with 1,000 jobs and 4,000 pods, and measure it (~2.5 min)
	DIJOB_SCALE_JOBS=1000 $(PY) -m pytest -s tests/faults/test_scale.py

# libfaketime (a Debian package) shifts the operator's clock. Without this library, the rows T15 fail.
.PHONY: faults
faults: cluster-build ## inject faults of networks, API servers, nodes and clocks, and print a table of the results (SEED=, ROWS=, JSON=FILE, CHANNEL=1)
	@if [ $$(id -u) -eq 0 ] && command -v apt-get >/dev/null && ! dpkg -s libfaketime >/dev/null 2>&1; then \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libfaketime >/dev/null; fi
	@$(PY) -m faults.simulated_nodes $(ROWS) $(SEED:%=--seed %) $(if $(CHANNEL),--channel) \
	  $(if $(or $(JSON),$(ROWS)),$(JSON:%=--json %),--json bench/results/faults$(if $(CHANNEL),-channel).json)

.PHONY: kueue
kueue: cluster-build ## run jobs with queues on the real Kueue, which is built from a checkout of its source (KUEUE_SRC=, ROWS=; ~7 min for the first build, ~25 min for the scenarios)
	@test -n "$(KUEUE_SRC)" || { echo "set KUEUE_SRC to a checkout of github.com/kubernetes-sigs/kueue" >&2; exit 2; }
	@$(PY) -m queues $(KUEUE_SRC) $(ROWS)

.PHONY: soak
soak: cluster-build ## random jobs and faults for half an hour, to find leaks (MINUTES=, SEED=, JSON=FILE, CHANNEL=1)
	@$(PY) -m faults.soak --minutes $(or $(MINUTES),30) $(SEED:%=--seed %) $(if $(CHANNEL),--channel) \
	  --json $(or $(JSON),bench/results/soak$(if $(CHANNEL),-channel).json)

.PHONY: faults-page
faults-page: venv ## update the tables of docs/reliability.md from bench/results
	@$(PY) -m faults.simulated_nodes.page

.PHONY: bench
bench: cluster-build ## start times of 20x4, 100x4 and 5x200 pods, compared with bare clients and JobSet, three runs (~20 min; SHAPES=, RUNS=, JSON=FILE, JOBSET_BIN=, OTHER_CHECKOUT=, ENTRANTS=)
	@$(PY) bench/start.py $(SHAPES) --runs $(or $(RUNS),3) $(JSON:%=--json %)

.PHONY: bench-full
bench-full: cluster-build ## up to 1,000 jobs, and one job of 1,500 ranks: starts, scaling, losses, idle load, restarts of the operator (~20 min; SHAPES=, JSON=FILE)
	@$(PY) bench/full.py $(SHAPES) $(JSON:%=--json %)

# matplotlib, which only the plots need.
PLOTS := $(CACHE)/plots-$(shell { cat bench/requirements.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)

$(PLOTS)/ready: $(VENV)/ready
	$(call APART,matplotlib,~20 s,bench/requirements.txt)

.PHONY: bench-page
bench-page: $(PLOTS)/ready ## update the tables and plots of docs/performance.md from bench/results
	@$(PY) bench/page.py
	@PYTHONPATH=$(PYTHONPATH):$(PLOTS) $(PY) bench/plots.py

.PHONY: bench-nodes
bench-nodes: cluster-build images ## duration of each step of a start and of a recovery on real nodes (~5 min; RUNS=)
	@$(PY) bench/nodes.py $(if $(RUNS),--runs $(RUNS))

# The peers are built from their sources outside of this repository. A peer whose variable is not set is left out, with a message.
.PHONY: bench-peers
bench-peers: cluster-build images ## DIJob compared with its peers on real nodes, five runs each (~90 min; ROUNDS=, REPEAT=, FIGURES=, ENTRANTS=, JSON=FILE, JOBSET_BIN=, TRAINING_OPERATOR_BIN=, DI_ORCHESTRATOR_BIN=)
	@$(PY) bench/peers.py $(ROUNDS:%=--rounds %) $(REPEAT:%=--repeat %) $(if $(FIGURES),--figures "$(FIGURES)") $(if $(ENTRANTS),--entrants "$(ENTRANTS)") $(JSON:%=--json %) $(if $(ADD),--add)

.PHONY: schedulers
schedulers: cluster-build ## jobs with the real schedulers Volcano and scheduler-plugins, built from checkouts of their sources (~4 min without the builds; VOLCANO_SRC=, SCHEDULER_PLUGINS_SRC=)
	@$(PY) tests/schedulers.py $(VOLCANO_SRC:%=--volcano %) $(SCHEDULER_PLUGINS_SRC:%=--scheduler-plugins %)

.PHONY: profile
profile: cluster-build ## a flame graph of the operator while 100 jobs of 4 ranks start (~1 min; OUT=FILE; PYSPY=: path of py-spy)
	@$(PY) bench/flames.py $(or $(OUT),docs/pictures/operator.svg)

.PHONY: e2e
e2e: tools cluster-build images $(NOTEBOOK)/ready ## end-to-end tests with real pods on real nodes (~30 min)
	$(PY) -m pytest tests/field $(E2E_FILES) -m "not alone and not long" -n 3 --dist loadfile --no-loadscope-reorder --durations=25
	$(PY) -m pytest tests/e2e -m "alone and not long"

.PHONY: field
field: cluster-build images ## regression tests for user inputs that once failed (~4 min; CASE=c41 runs one)
	@$(PY) -m pytest tests/field -q $(if $(CASE),-k $(CASE))

.PHONY: first-events
first-events: cluster-build images ## test the delivery of the first events of each process, with and without the launcher's wait, 20 runs each (~35 min)
	$(PY) -m pytest -s tests/e2e/test_first_events.py -m long

.PHONY: long
long: cluster-build images ## long variants of tests, mostly with real DI-engine (~35 min)
	$(PY) -m pytest tests/e2e tests/faults tests/chart/test_chart_history.py tests/chart/test_chart_bucket.py -m long --ignore=tests/e2e/test_first_events.py

.PHONY: chaos
chaos: cluster-build images ## random fault injection on real pods, several faults at once, five jobs (~15 min; SEED=, MINUTES=, REPLAY=FILE, JSON=FILE)
	@$(PY) -m faults.real_pods $(SEED:%=--seed %) $(MINUTES:%=--minutes %) $(REPLAY:%=--replay %) $(JSON:%=--json %)

.PHONY: chaos-page
chaos-page: venv ## update the table of real pods in docs/reliability.md from bench/results/chaos.json
	@$(PY) -m faults.real_pods.page

.PHONY: arm64
arm64: venv ## build the arm64 images of launcher and operator and run their programs in an emulator (~4 min; not in make test)
	@command -v qemu-aarch64-static >/dev/null || { \
	  if [ $$(id -u) -eq 0 ] && command -v apt-get >/dev/null; then echo "==> apt-get install qemu-user-static (~20 s)"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-user-static >/dev/null; fi; }
	$(PY) -m pytest tests/arm64

.PHONY: matrix
matrix: venv ## tests on the oldest and newest Kubernetes, IPv6 and dual-stack (ROWS="oldest ipv6", COLD=1; not in make test)
	@$(PY) tests/matrix.py $(ROWS) $(if $(COLD),--cold)

.PHONY: stress
stress: venv ## find flaky tests: make unit-all 20 times next to 4 busy processes (UNIT=, LOAD=), make e2e 3 times (E2E=) (~3 h)
	@$(PY) tests/stress.py

# schemathesis, which only make fuzz needs.
FUZZ := $(CACHE)/fuzz-$(shell { cat tests/chart/schemathesis.txt; $(PYTHON) -IS -VV; } 2>/dev/null | sha256sum | cut -c1-12)

$(FUZZ)/ready:
	@echo "==> schemathesis into $(FUZZ) (~20 s)" >&2
	@rm -rf $(FUZZ) && $(PYTHON) -m venv $(FUZZ)
	@$(FUZZ)/bin/python -m pip install -q --require-hashes --no-deps -r tests/chart/schemathesis.txt
	@touch $@

.PHONY: fuzz
fuzz: cluster-build $(FUZZ)/ready ## fuzz the HTTP server with schemathesis, with valid and invalid requests (~2 min)
	DIJOB_SCHEMATHESIS=$(FUZZ)/bin/schemathesis $(PY) -m pytest -s tests/chart/test_chart_server.py -m long -k schemathesis

.PHONY: screenshots
screenshots: tools cluster-build images ## take the screenshots of docs/tools.md, with real pods in a real browser (~8 min; PAGES=FOLDER also stores every page)
	@$(PY) tests/e2e/pictures.py $(PAGES)

.PHONY: golden
golden: cluster-build ## store the objects that the newest release writes, for the upgrade tests (~3 min; tests/golden)
	@$(PY) -m golden

.PHONY: demo
demo: venv ## train a real DQN on four pods (~10 min the first time, then ~2 min)
	@$(PY) tests/e2e/demo.py

.PHONY: test
test: ## run all checks and tests that CI runs (~60 min the first time, then ~45 min)
	@begin=$$SECONDS; for stage in check unit-covered "-j2 cluster-build images" apiserver e2e; do \
	  echo "==> [$$((SECONDS - begin)) s] make $$stage"; $(MAKE) --no-print-directory $$stage; done; \
	echo "==> all passed in $$((SECONDS - begin)) s"
