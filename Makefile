# Everything runs in .venv, which the first command that needs it creates. `make` alone lists the commands.
#
#   make test PYTHON=/path/to/python3.12    another interpreter
#   make test PYTEST_ARGS="-k stiefel"      fewer tests

VENV := .venv
PYTHON ?=
PYTEST_ARGS ?=
FUZZ_ARGS ?=

# The commands share one environment, and pip and pytest bring their own parallelism: `make -j` runs them in turn.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help reproduce test docs lint types format bench fuzz package clean install-experiments install-docs install-dev install-bench

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

reproduce: install-experiments ## Set up, run the paper's SYN1 comparison, write figures and a report page into results/
	@"$(VENV)/bin/python" -m retrax run pca-syn1 --jobs 2 --out results && "$(VENV)/bin/python" -m retrax report --out results

# The workers share what JAX has compiled, so that either may take over the tests of a file from the other at the end.
test: lint types ## Set up, then lint, types and all tests
	"$(VENV)/bin/python" -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

lint: install-dev ## Check style and formatting (ruff)
	"$(VENV)/bin/python" -m ruff check .
	"$(VENV)/bin/python" -m ruff format --check .

types: install-dev ## Check types (mypy)
	"$(VENV)/bin/python" -m mypy

format: install-dev ## Mend what ruff can mend
	"$(VENV)/bin/python" -m ruff check --fix .
	"$(VENV)/bin/python" -m ruff format .

# The gallery runs the examples; one whose data set is not in RETRAX_DATA is shown without being run.
docs: install-docs ## Set up, build the documentation into build/docs/index.html, with warnings as errors
	@"$(VENV)/bin/python" -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs && echo "open build/docs/index.html"

package: install-dev ## Build the wheel and the source archive into dist/, and try each in an empty environment
	@"$(VENV)/bin/python" -m tests.package dist

bench: install-bench ## Measure side by side with other libraries, in half an hour
	@"$(VENV)/bin/python" -m benchmarks --brief

fuzz: install-dev ## Call the public API with generated arguments, for long (FUZZ_ARGS="--calls 1000000 --seed 7")
	@"$(VENV)/bin/python" -m tests.fuzz $(FUZZ_ARGS)

clean: ## Remove the environment, caches and build products (results/ stays)
	rm -rf "$(VENV)" build dist docs/gallery docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

install-experiments:
	$(call install,experiments,.[experiments],experiments)

install-docs:
	$(call install,docs,.[docs],experiments docs)

install-dev:
	$(call install,dev,.[torch$(comma)dev],experiments docs dev)

# The benchmarks compare with libraries that the tests use too (geoopt, pyRiemann, scikit-learn).
install-bench:
	$(call install,bench,.[torch$(comma)dev$(comma)bench],experiments docs dev bench)

comma := ,

# $(call install,LEVEL,REQUIREMENT,LEVELS INCLUDED): does nothing when the level's stamp is current. A stamp holds a
# checksum of what was installed and where (an editable install does not survive a move of the folder). Stamps go
# first and come back last; `.incomplete` stands in between, so a killed installation is begun afresh, never trusted.
# Two makes at once wait for each other, where the system has flock.
define install
@set -eu; venv="$(VENV)"; \
exec 9< pyproject.toml; if command -v flock > /dev/null; then flock 9; fi; \
key=$$({ pwd; cat pyproject.toml constraints.txt; } | cksum); \
if [ "$$(cat "$$venv/.installed-$(1)" 2> /dev/null)" = "$$key" ] && "$$venv/bin/python" -c "" 2> /dev/null; then exit 0; fi; \
suitable="import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"; \
if [ -e "$$venv/.incomplete" ] || ! "$$venv/bin/python" -c "$$suitable; import pip" 2> /dev/null; then \
  python=; \
  for candidate in $(if $(PYTHON),"$(PYTHON)",python3.11 python3); do \
    if "$$candidate" -c "$$suitable" 2> /dev/null; then python=$$candidate; break; fi; \
  done; \
  if [ -z "$$python" ]; then \
    echo "error: Retrax needs Python 3.11 or newer with its venv module (Debian: python3-venv), and found none as $(or $(PYTHON),python3.11 or python3); name one with PYTHON=/path/to/python3" >&2; \
    exit 1; \
  fi; \
  echo "Creating $$venv with $$("$$python" --version)"; \
  mkdir -p "$$venv"; touch "$$venv/.incomplete"; \
  "$$python" -m venv --clear "$$venv"; \
fi; \
echo "Installing $(2) into $$venv (minutes the first time)"; \
rm -f "$$venv"/.installed-*; touch "$$venv/.incomplete"; \
"$$venv/bin/python" -m pip install -qq --disable-pip-version-check -c constraints.txt hatchling editables; \
"$$venv/bin/python" -m pip install -qq --disable-pip-version-check -c constraints.txt --no-build-isolation -e "$(2)"; \
for level in $(3); do echo "$$key" > "$$venv/.installed-$$level"; done; \
rm -f "$$venv/.incomplete"
endef
