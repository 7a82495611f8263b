# Every target is a noun and sets up what it needs by itself: the virtual
# environment, the package, the tools, the compiled modules. `make` lists them.
#
# Tests of the edit loop (check and its parts) run as plain Python, which needs no
# compilation; the rest runs compiled where there is a C compiler. TWINBUS_PURE=1
# in front of any target makes it plain.

VENV := .venv
PYTHON_IN := $(VENV)/bin/python
# What it takes to run a bus, and what it takes to develop one.
BUS_READY := $(VENV)/.bus-ready
READY := $(VENV)/.ready
# Java, PySpark and Arrow: for what has to do with Spark only.
SPARK_READY := $(VENV)/.spark-ready
# The same without tools for development and without the oldest PySpark.
SPARK_USABLE := $(VENV)/.spark-usable
# Tests, compiled by pytest.
TESTS_READY := $(VENV)/.tests-ready
# Java's classes as Spark uses them: JVMs of tests start in half the time.
SPARK_CLASSES := build/spark-classes.jsa
JOBS ?= $(shell n=$$(nproc); echo $$((n > 4 ? 4 : n < 2 ? 2 : n)))
TESTS_IN_PARALLEL := pytest -q -n $(JOBS) --dist worksteal
PYTEST := $(PYTHON_IN) -m $(TESTS_IN_PARALLEL)
COVERAGE := $(PYTHON_IN) -m coverage
PLAIN := TWINBUS_PURE=1
# asyncio checks that its loops are used by their own threads, and notes where each future
# was made. Tests of coroutines take two and a half times the processor with it.
CHECKED := -o asyncio_debug=true
PLAIN_TESTS := $(PLAIN) $(PYTEST) $(CHECKED)
# So that whoever looks for minutes finds them in what was printed.
SLOWEST := --durations 15 --durations-min 20
# Stores, crashes and attacks: they wait for disks and processes for a third of the time.
WORKING_TESTS = $(PYTEST) -n $$((2 * $(JOBS))) $(SLOWEST)
# Tests that wait most of the time, with more workers: with three for each processor, the
# processors were idle for 30 to 80 % of it.
WAITING_TESTS = $(PYTEST) -n $$((5 * $(JOBS))) $(SLOWEST)
PAIRS_TESTS = $(PYTEST) -n $$((4 * $(JOBS))) tests/pairs
# Each worker has a Spark session of its own, and one of them has the cluster. They wait,
# too: with as many workers as processors, these are idle for half of the time.
SPARK_TESTS = $(PYTEST) -n $$((2 * $(JOBS) + 1)) --dist loadgroup $(SLOWEST) tests/spark
# What a bus of the SDK's tests is made of, other than one SQLite store.
OTHER_SETUPS := postgres partitioned brokers
# Tests that need the processor more than they wait.
WORKING := crash hostile property sim store unit
# One after the other.
STAGES := plain-stage working-stage waiting-stage pairs-stage spark-stage
# Tests that have a long form.
LONG := property sim crash drills
# Unit tests that run no compiled code: once, as plain Python, is enough.
PLAIN_ONLY := auth cli client cluster config conformance diagnosis faults pairing process \
	scripts sdk_internals spark_side throttling test_architecture.py test_names.py \
	test_tidy.py

# Each process would compile every module of twinbus again, and each worker every test.
unexport PYTHONDONTWRITEBYTECODE

# Which queues `make run` makes, and all other settings.
CONFIG ?= $(CURDIR)/examples/bus.toml

.DEFAULT_GOAL := help
.PHONY: help run test $(STAGES) plain-tests check style types unit property coverage store wire \
	sdk sim crash \
	drill fuzz spark spark-ready \
	conformance conformance-page clients clients-page bench bench-attackers \
	bench-pairing bench-spark nightly docs everything tools compiled wheel wheels \
	clean

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

run: $(BUS_READY) ## The bus on the embedded store in ./data (CONFIG, ARGS)
	@exec scripts/run.sh --data ./data --config $(CONFIG) $(ARGS)

# Some tests work, others wait, for the SDK, for processes and for outages: of these
# more run at once. CONTRIBUTING.md has a table of what runs where. Each stage is a target,
# so that `make --keep-going test` tells of all that fail.
test: $(BUS_READY) ## All tests; unit and property tests in plain Python too
	@$(MAKE) --no-print-directory -j 1 $(STAGES)

plain-stage: $(BUS_READY)
	@$(MAKE) --no-print-directory -j 3 compiled $(SPARK_CLASSES) plain-tests

working-stage:
	@$(WORKING_TESTS) $(WORKING:%=tests/%) $(PLAIN_ONLY:%=--ignore tests/unit/%)

waiting-stage:
	@$(WAITING_TESTS) tests $(WORKING:%=--ignore tests/%) \
		--ignore tests/pairs --ignore tests/spark

pairs-stage:
	@$(PAIRS_TESTS)

spark-stage:
	@$(SPARK_TESTS)

# They need nothing that is compiled, so they need not wait for it.
plain-tests: $(TESTS_READY)
	@$(PLAIN_TESTS) tests/unit tests/property

check: style types unit property ## What must pass before a commit

style: $(READY) ## ruff: rules and format
	@$(VENV)/bin/ruff check --quiet
	@$(VENV)/bin/ruff format --quiet --check || \
		{ echo "ruff format would change files: run it"; exit 1; }

types: $(SPARK_READY) ## mypy --strict over src
	@$(VENV)/bin/mypy --no-error-summary

unit: $(SPARK_READY) ## Tests without sockets, architecture and tidiness among them
	@$(PLAIN_TESTS) tests/unit

property: $(SPARK_READY) ## Properties and state machines, by Hypothesis
	@$(PLAIN_TESTS) tests/property

# Measuring makes tests slow, so they have no time limit and no other target includes it.
coverage: $(SPARK_READY) ## Lines and branches that unit and property tests run
	@rm -rf build/coverage* && mkdir -p build
	@$(PLAIN) $(COVERAGE) run -m $(TESTS_IN_PARALLEL) --timeout 0 \
		tests/unit tests/property
	@$(COVERAGE) combine --quiet && $(COVERAGE) json --quiet -o build/coverage-report.json
	@$(PYTHON_IN) scripts/coverage_table.py build/coverage-report.json

store: $(READY) compiled ## The store suite over each backend
	@$(PYTEST) tests/store

wire: $(READY) compiled ## Exact frames against a live bus
	@$(PYTEST) tests/wire

sdk: $(READY) compiled ## Numbered cases, by the official SDK (TWINBUS_TEST_SETUP)
	@$(PYTEST) tests/conformance

sim: $(READY) compiled ## Simulated worlds (TWINBUS_SIM_SEEDS: how many)
	@$(PYTEST) tests/sim

crash: $(READY) compiled ## kill -9 under load (TWINBUS_CRASH_ROUNDS: how often)
	@$(PYTEST) tests/crash

drill: $(READY) compiled ## Kill brokers and database servers under load (ARGS: --help)
	@PYTHONPATH=src:tests:. exec $(PYTHON_IN) -m drills $(ARGS)

fuzz: $(READY) compiled ## Requests by Schemathesis to HTTP messaging (ARGS: --help)
	@PYTHONPATH=src:tests:. exec $(PYTHON_IN) -m fuzz $(ARGS)

spark: everything ## The format `servicebus`, on real Spark and clusters
	@$(SPARK_TESTS)

conformance: $(READY) compiled ## The vendor's own live tests of the SDK (ARGS: which)
	@$(PYTHON_IN) -m conformance $(ARGS)

conformance-page: $(READY) ## Its last result, into docs/compatibility.md
	@$(PYTHON_IN) scripts/conformance_page.py

clients: $(READY) compiled ## Real clients of all languages against a bus (ARGS: which)
	@$(PYTHON_IN) -m conformance.clients $(ARGS)

clients-page: $(READY) ## Their last results, into docs/compatibility.md
	@$(PYTHON_IN) scripts/clients_page.py

nightly: export TWINBUS_CRASH_ROUNDS ?= 200
nightly: export TWINBUS_SIM_SEEDS ?= 20000
nightly: export TWINBUS_SYPHON_KILLS ?= 10
nightly: export TWINBUS_TAKEOVER_KILLS ?= 3
nightly: export TWINBUS_CAPTURE_KILLS ?= 8
nightly: export TWINBUS_CAPTURE_STEPS ?= all
nightly: export TWINBUS_DRILL_ROUNDS ?= 10
nightly: export TWINBUS_TEST_NIGHTLY ?= 1
nightly: export TWINBUS_AUDIT_ROWS ?= 5000000
nightly: export TWINBUS_TEST_FRESH ?= 1
nightly: export TWINBUS_TEST_CONTAINER ?= 1
nightly: everything ## The long form of property, sim, crash, drills and pairs; conformance
	@$(PYTEST) $(CHECKED) --timeout 0 --hypothesis-profile nightly \
		$(LONG:%=tests/%) tests/spark/test_syphon.py \
		tests/spark/test_syphon_kill.py tests/spark/test_takeover.py \
		tests/spark/test_capture.py tests/spark/test_capture_kill.py \
		tests/spark/test_audit.py
	@$(PYTEST) $(CHECKED) -n $$((3 * $(JOBS))) tests $(LONG:%=--ignore tests/%) \
		--ignore tests/spark
	@$(SPARK_TESTS) -m nightly
	@$(PYTHON_IN) -m conformance
	@$(PYTEST) conformance/transactions
	@for setup in $(OTHER_SETUPS); do \
		TWINBUS_TEST_SETUP=$$setup $(WAITING_TESTS) tests/conformance && \
		$(PYTHON_IN) -m conformance --setup $$setup || exit 1; \
	done
	@PYTHONPATH=src:tests:. $(PYTHON_IN) -m fuzz --examples 2000
	@$(PYTHON_IN) -m bench.pairing
	@$(PYTHON_IN) -m bench.spark
	@$(PYTHON_IN) -m bench.spark_filters
	@$(PYTHON_IN) -m bench.spark_jobs
	@scripts/newcomer.sh
	@$(MAKE) --no-print-directory wheels wheel
	@scripts/wheel_check.sh

bench: $(READY) compiled ## Throughput and latency, beside RabbitMQ (ARGS: which)
	@exec $(PYTHON_IN) -m bench $(ARGS)

bench-attackers: $(READY) compiled ## A good client beside attackers, five minutes (ARGS)
	@exec $(PYTHON_IN) -m bench.attackers $(ARGS)

bench-pairing: $(READY) compiled ## A pair under load while its primary goes away (ARGS)
	@exec $(PYTHON_IN) -m bench.pairing $(ARGS)

bench-spark: everything ## Spark beside the SDK, and a million drained (ARGS)
	@exec $(PYTHON_IN) -m bench.spark $(ARGS)

docs: $(SPARK_READY) ## Regenerate the pages that are made from the code
	@$(PYTHON_IN) scripts/cli_reference.py
	@$(PYTHON_IN) scripts/configuration_page.py
	@$(PYTHON_IN) scripts/errors_reference.py
	@$(PYTHON_IN) scripts/amqp_states_reference.py
	@$(PYTHON_IN) scripts/pairing_page.py
	@$(PYTHON_IN) scripts/spark_page.py
	@$(PYTHON_IN) scripts/report_page.py

# Compiling and loading, one beside the other.
everything: $(BUS_READY)
	@$(MAKE) --no-print-directory -j 3 compiled $(SPARK_CLASSES) $(TESTS_READY)

spark-ready: $(SPARK_USABLE) ## Java, PySpark and plots into .venv, for `twinbus spark`

tools: $(READY) ## Everything for development, into .venv

compiled: $(BUS_READY) ## The hot modules, compiled for the sources as they are now
	@nice $(PYTHON_IN) setup.py --quiet native

wheel: compiled ## A wheel in dist/ with the compiled modules (TWINBUS_PURE=1: without)
	@rm -rf build/lib* build/bdist.*
	@$(PYTHON_IN) -m pip --quiet --disable-pip-version-check wheel \
		--no-build-isolation --no-deps --wheel-dir dist .
	@ls -t dist/*.whl | head -n 1

wheels: $(BUS_READY) ## Wheels for all Pythons in dist/: manylinux in containers, and a pure one
	@scripts/wheels.sh

clean: ## Remove all that make made, except ./data
	@rm -rf $(VENV) build dist src/*.egg-info src/twinbus/_native
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests scripts bench conformance -name __pycache__ -prune -exec rm -rf {} +

$(BUS_READY): pyproject.toml setup.py scripts/setup.sh
	@scripts/setup.sh bus
	@touch $@

$(READY): $(BUS_READY)
	@scripts/setup.sh tools
	@touch $@

$(SPARK_USABLE): $(BUS_READY) scripts/setup_spark.sh
	@scripts/setup_spark.sh
	@touch $@

$(SPARK_READY): $(READY) scripts/setup_spark.sh
	@scripts/setup_spark.sh oldest
	@touch $(SPARK_USABLE) $@

# pytest compiles a test once for all runs, but of workers that start together each
# would compile all tests.
$(TESTS_READY): $(SPARK_READY)
	@$(PLAIN) nice $(PYTHON_IN) -m pytest -q --collect-only -p no:xdist >/dev/null
	@touch $@

$(SPARK_CLASSES): $(SPARK_READY) scripts/spark_classes.py
	@nice $(PYTHON_IN) scripts/spark_classes.py
